# shellcheck shell=bash disable=SC2034,SC2154
# test/bench/commands.sh: scenario "commands" of script/bench.  Sourced after parties.sh.
#
# A fleet of the simulator (test/fleet) is connected; then every device is sent a command in one transaction, several times.
# What counts is the time until the acknowledgement of the last one is in the log, and that memory stays what it was.

# kB that the dispatcher and the front doors have allocated; shared buffers that they have touched are not in it.
command_memory()
{
    local pid

    run_sql -c "SELECT pid FROM fleetlog.stat_worker WHERE kind IN ('commands', 'front_door') AND pid IS NOT NULL" |
        while read -r pid; do cat "/proc/$pid/smaps_rollup"; done | awk '/^Anonymous:/ { kb += $2 } END { print kb }'
}

commanded_fleet_is_there()
{
    [ "$(run_sql -c "SELECT count(*) FROM fleetlog.stat_connection WHERE device LIKE 'cmd-%' AND subscriptions > 0")" = "$1" ]
}

command_is_delivered()
{
    [ "$(run_sql -c "SELECT count(*) FROM fleetlog.command WHERE name = '$1' AND delivered_at IS NOT NULL")" = "$2" ]
}

# Arguments: name of the command, how many devices.  Prints seconds: until the call is back, until the last device has acknowledged it.
command_all()
{
    local begin called

    begin=$(date +%s.%N)
    run_sql -o /dev/null -c "SELECT fleetlog.send_command('bench/' || id, '$1', '{\"v\": 7}', ttl => '10 min') FROM fleetlog.device WHERE tenant = 'bench' AND id LIKE 'cmd-%'"
    called=$(date +%s.%N)
    fl_wait 240 command_is_delivered "$1" "$2" || { fl_note "commands: not all were delivered"; status=1; }
    run_sql -F ' ' -c "SELECT round($called - $begin, 2), round(extract(epoch FROM max(delivered_at)) - $begin, 2) FROM fleetlog.command WHERE name = '$1'"
}

commands_to_fleet()
{
    local n=$((crowd > 10000 ? 10000 : crowd)) file=$results/commands.json turn called took best=999999 before after

    fl_as make -s -C "$FL_SOURCE/test/fleet" all >"$dir/make.log" 2>&1 || { cat "$dir/make.log" >&2; fl_die "the simulator does not build"; }
    run_sql -c "SELECT 'bench/cmd-' || n || ' ' || fleetlog.create_device('cmd-' || n, 'bench') FROM generate_series(1, $n) n" >"$dir/credentials"
    chmod a+r "$dir/credentials"
    rm -f "$dir/job.pid"
    spawn "$dir/job.pid" "$dir/job.log" "$FL_SOURCE/test/fleet/build/fl_fleet" -p "$fleetlog_port" -c "$n" --credentials "$dir/credentials" \
        --boot 1 --interval 600 --every 1 --seed 7
    fl_wait 240 commanded_fleet_is_there "$n" || { fl_note "commands: the fleet does not come up"; status=1; }
    # The first makes the stream, and buffers grow to what they need.
    command_all first "$n" >/dev/null
    before=$(command_memory)
    for turn in 1 2 3 4; do
        read -r called took <<<"$(command_all "again-$turn" "$n")"
        echo "    $n commands: called in $called s, all acknowledged by their devices after $took s"
        best=$(printf '%s\n' "$best" "$took" | sort -g | head -n 1)
    done
    after=$(command_memory)
    stop_job commands
    echo "    memory of dispatcher and front doors: $before kB before, $after kB after"
    echo '{}' >"$file"
    perl "$table" add "$file" "commands=$n" "commands_delivered_seconds=$best" "commands_kb_before=$before" "commands_kb_after=$after"
    if [ "$after" -gt $((before * 5 / 4 + 4096)) ]; then fl_note "commands: memory has grown"; status=1; fi
}
