# W1-W3: watch() waits by latch: many watches of a quiet table are not scheduled while other streams are written, and one
# record ends all of them; whatever ends a wait leaves nobody behind. Its positions hold over a crash, on a standby and
# after a promotion; what is not confirmed is not told; a value that waits for a lock is. fleetlog-watch --no-slot.
use strict;
use warnings;
use Test::More;
use JSON::PP;
use FleetlogTest;
use FleetlogTest::Watch;

my $n = ($ENV{FLEETLOG_ROUNDS} // 3) >= 20 ? 250 : 60;
my $s = FleetlogTest->new('watch', no_wait => 1, conf => "max_connections = 300\nfleetlog.mqtt_listen = ''\nfleetlog.shard_hold_timeout = 0\n");
my $node = $s->node;
my $dir = PostgreSQL::Test::Utils::tempdir();
$s->sql("SELECT fleetlog.create_stream('t', shards => 2), fleetlog.create_stream('other'), fleetlog.create_state('st')");
$s->sql("SELECT fleetlog.mount('r/', 't', state => 'st')");
$s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = 'flusher' AND state <> 'starting'", 't', 'the flusher');

sub publish { return $s->sql("SELECT fleetlog.publish('$_[0]', '$_[1]', retain => true)") }
sub position { return $_[0]->sql("SELECT position FROM fleetlog.watch('st') WHERE event = 'end-snapshot'") }
sub events { my ($where, $since, $more) = @_; return $where->sql("SELECT string_agg(event || coalesce(':' || key, ''), ' ') FROM fleetlog.watch('st', '$since'" . ($more // '') . ')') }
sub waiting { return $s->wait_for("SELECT count(*) FROM fleetlog.stat_waiter WHERE kind = 'watch'", $_[0], "$_[0] to wait") }
sub wakeups { return $s->sql('SELECT wakeups FROM fleetlog.stat_wait') }

# pgbench is one process with many sessions.
sub watches
{
    my ($sessions, $arguments) = @_;
    my $file = "$dir/watch.sql";
    my %h = (out => '', err => '');

    open my $f, '>', $file or die "$file: $!";
    print $f "SELECT * FROM fleetlog.watch($arguments);\n";
    close $f;
    $h{run} = IPC::Run::start(
        [ 'sh', '-c', 'ulimit -n 4096; exec pgbench "$@"', 'pgbench', '-n', '-c', $sessions, '-t', 1, '-f', $file, '-d', $node->connstr('fleetlog') ],
        '>', \$h{out}, '2>', \$h{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    waiting($sessions);
    return \%h;
}

publish('r/a', 1);
{
    my $p = $s->sql("SELECT position FROM fleetlog.watch('st', keys => '{r/wanted}') WHERE event = 'end-snapshot'");
    my $h = watches($n, "'st', '$p', keys => '{r/wanted}', wait => '1 h'");
    $s->wait_asleep;
    my ($slept, $woken) = ($s->waiter_sleeps, wakeups());
    $s->sql("SELECT count(fleetlog.append('other', 'k', 'x')) FROM generate_series(1, 10)") for 1 .. 20;
    is(wakeups(), $woken, 'records of another stream wake nobody');
    is($s->waiter_sleeps, $slept, "$n waiting sessions were not scheduled once");
    publish('r/unwanted', 1);
    $s->wait_for("SELECT wakeups >= $woken + $n FROM fleetlog.stat_wait", 't', 'all to look');
    $s->wait_for('SELECT waiting FROM fleetlog.stat_wait', $n, 'all to wait again, since a key that is not wanted ends no watch');
    publish('r/wanted', 1);
    $h->{run}->finish;
    like($h->{out}, qr{transactions actually processed: $n/$n}, 'one record ends all of them');
    is($s->sql('SELECT waiting || $$ $$ || timeouts FROM fleetlog.stat_wait'), '0 0', 'nobody is left, and no timer ran out');
}

# What ends a wait leaves no waiter.
for my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
    my $h = watches(2, "'st', '" . position($s) . "', wait => '1 h'");
    $s->sql("SELECT $how(pid) FROM fleetlog.stat_waiter");
    $h->{run}->finish;
    waiting(0);
}
{
    my $h = watches(2, "'st', '" . position($s) . "', wait => '1 h'");
    $h->{run}->kill_kill(grace => 0);
    waiting(0);
}

# While it waits: shards are added, and followed; another mount, and the state is told again.
{
    my $p = position($s);
    my $h = $s->start_sql("SELECT event, key FROM fleetlog.watch('st', '$p', wait => '1 h')");
    waiting(1);
    $s->sql("SELECT fleetlog.alter_stream('t', shards => 4)");
    $s->sql("SELECT fleetlog.append('t', 'r/new', 'x', '[[\"fl.retain\", \"1\", true]]', shard => 3)");
    is(($s->finish_sql($h))[1], "set|r/new\n", 'a shard that was added while the watch waited');
    $p = position($s);
    $h = $s->start_sql("SELECT event, key FROM fleetlog.watch('st', '$p', wait => '1 h') WHERE event <> 'row'");
    waiting(1);
    $s->sql("SELECT fleetlog.mount('more/', 'other', state => 'st')");
    publish('r/b', 1);
    is(($s->finish_sql($h))[1], "begin-snapshot|\nend-snapshot|\n", 'other mounts while the watch waited: the state again');
    # Now the table has two streams.
    for my $key ('more/1', 'r/c')
    {
        $p = position($s);
        $h = $s->start_sql("SELECT event, key FROM fleetlog.watch('st', '$p', wait => '1 h')");
        waiting(1);
        publish($key, 1);
        is(($s->finish_sql($h))[1], "set|$key\n", "a watch of two streams is woken by $key");
    }
}

# A value that waits for a lock on its row is told, as a change and in the state.
{
    my $p = position($s);
    my $locker = $s->session;
    $locker->query("BEGIN; SELECT 1 FROM st WHERE key = 'r/a' FOR UPDATE");
    publish('r/a', 'behind the lock');
    is($s->sql("SELECT fleetlog.text(payload) FROM st WHERE key = 'r/a'"), '1', 'the row is as it was');
    is(events($s, $p), 'set:r/a', 'the change is told');
    is($s->sql("SELECT fleetlog.text(payload) FROM fleetlog.watch('st') WHERE key = 'r/a'"), 'behind the lock', 'and the value in the state');
    $locker->query('ROLLBACK');
    $locker->quit;
}

# After a crash positions are what they were.
{
    my $p = position($s);
    publish('r/a', 2);
    $s->kill9_and_start(no_wait => 1);
    publish('r/a', '');
    is(events($s, $p), 'set:r/a clear:r/a', 'a position from before the crash');
}

my $standby = $s->new_standby('standby');
$standby->node->start;

# What the standbys have not confirmed is not told (L5).
{
    $s->sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    $node->reload;
    $s->wait_for('SHOW synchronous_standby_names', 'standby', 'the reload');
    my $q = $s->session;
    $q->query('SET synchronous_commit = local');
    $q->query("SELECT fleetlog.create_stream('q', durability => 'quorum'), fleetlog.create_state('q_state')");
    $q->query("SELECT fleetlog.mount('q/', 'q', 'q_state')");
    my $p = $q->query("SELECT position FROM fleetlog.watch('q_state') WHERE event = 'end-snapshot'");
    $standby->node->stop;
    $q->query("SELECT fleetlog.publish('q/a', 'x', retain => true)");
    is($q->query('SELECT count(*) FROM q_state'), 1, 'the row is there');
    is($q->query("SELECT count(*) FROM fleetlog.watch('q_state', '$p')"), 0, 'its change is not told');
    my $h = $s->start_sql("SELECT event, key FROM fleetlog.watch('q_state') WHERE event = 'row'");
    waiting(1);
    $standby->node->start;
    is(($s->finish_sql($h))[1], "row|q/a\n", 'the state waits until it is confirmed');
    is($q->query("SELECT event FROM fleetlog.watch('q_state', '$p')"), 'set', 'then the change is told');
    $q->quit;
    $s->sql('ALTER SYSTEM RESET synchronous_standby_names');
    $node->reload;
    $s->wait_for('SHOW synchronous_standby_names', '', 'the reload');
}

# A standby tells the same; so does the one that is promoted.
{
    my $all = "SELECT string_agg(event || coalesce(key || '=' || fleetlog.text(payload), ''), ' ' ORDER BY key) FROM fleetlog.watch('st')";
    my $p = position($s);
    publish('r/d', 1);
    $s->catch_up($standby);
    is(events($standby, $p), 'set:r/d', 'the position of the primary is good on its standby');
    is($standby->sql($all), $s->sql($all), 'the state is the same');
    $p = position($standby);
    my $h = $standby->start_sql("SELECT event, key FROM fleetlog.watch('st', '$p', wait => '1 h')");
    $standby->wait_for("SELECT count(*) FROM fleetlog.stat_waiter", 1, 'a session to wait on the standby');
    publish('r/e', 1);
    is(($standby->finish_sql($h))[1], "set|r/e\n", 'a watch waits on a standby');
    $s->catch_up($standby);
    $p = position($s);
    $standby->node->promote;
    # The old primary goes its own way: whoever followed it learns that the new one has another log.
    $s->sql("SELECT fleetlog.publish('r/l' || i, '1', retain => true) FROM generate_series(1, 40) i");
    my $left = position($s);
    $h = $standby->start_sql("SELECT event FROM fleetlog.watch('st', '$left', wait => '1 h') WHERE event <> 'row'");
    $standby->wait_for("SELECT count(*) FROM fleetlog.stat_waiter", 1, 'a session to wait on the promoted server');
    $standby->sql("SELECT fleetlog.publish('r/f', '1', retain => true)");
    is(events($standby, $p), 'set:r/f', 'and goes on after its promotion');
    like(events($standby, $left), qr/^begin-snapshot .*end-snapshot$/, 'a position of a log that was left: the state again');
    $standby->sql("SELECT fleetlog.publish('r/l' || i, '2', retain => true) FROM generate_series(1, 40) i, generate_series(1, 5)");
    is(($standby->finish_sql($h))[1], "begin-snapshot\nend-snapshot\n", 'also when it is seen in the middle of a wait');
    $standby->node->stop;
}

# fleetlog-watch --no-slot: a role without REPLICATION, row-level security, a server that restarts, a history that has gone.
{
    $s->sql(<<'SQL');
CREATE ROLE a LOGIN; CREATE ROLE b LOGIN;
GRANT SELECT ON st, t, other TO a;
SELECT fleetlog.append('t', 'r/of-a', '1', '[["fl.retain", "1", true]]', tenant => 'a'), fleetlog.append('t', 'r/of-b', '1', '[["fl.retain", "1", true]]', tenant => 'b');
ALTER TABLE st ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON st FOR SELECT USING (tenant = current_user);
ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON t FOR SELECT USING (tenant = current_user);
ALTER TABLE other ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON other FOR SELECT USING (tenant = current_user);
SQL
    my $print = sub { join ' ', map { $_->{event} . (defined $_->{key} ? ":$_->{key}" : '') } grep { $_->{event} ne 'progress' } map { decode_json($_) } @_ };
    my @as_a = ('-d', $node->connstr('fleetlog') . ' user=a', '--no-slot');
    my $w = FleetlogTest::Watch->start($s, 'st', "$dir/a", @as_a);
    FleetlogTest::wait_until(sub { grep { /end-snapshot/ } $w->lines }, 'the state');
    $s->sql("SELECT fleetlog.append('t', 'r/of-' || x, '2', '[[\"fl.retain\", \"1\", true]]', tenant => x) FROM unnest(ARRAY['b', 'a']) x");
    FleetlogTest::wait_until(sub { grep { /"set"/ } $w->lines }, 'the change');
    is($print->($w->lines), 'begin-snapshot row:r/of-a end-snapshot set:r/of-a', 'a tenant sees what is his');
    $node->restart;
    $s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_waiter WHERE kind = 'watch'", 't', 'the watch to be there again');
    $s->sql("SELECT fleetlog.append('t', 'r/of-a', '', '[[\"fl.retain\", \"1\", true]]', tenant => 'a')");
    FleetlogTest::wait_until(sub { grep { /"clear"/ } $w->lines }, 'the clear');
    is($print->($w->lines), 'begin-snapshot row:r/of-a end-snapshot set:r/of-a clear:r/of-a', 'it goes on after a restart of the server');
    my $last = encode_json(decode_json(($w->lines)[-1])->{position});
    is($w->stop, 0, 'it ends at SIGTERM, in the middle of a wait');
    waiting(0);
    $s->sql("SELECT fleetlog.append('t', 'r/of-a', '3', '[[\"fl.retain\", \"1\", true]]', tenant => 'a')");
    $w = FleetlogTest::Watch->start($s, 'st', "$dir/a2", @as_a, '-s', $last);
    FleetlogTest::wait_until(sub { grep { /"set"/ } $w->lines }, 'the change');
    is($print->($w->lines), 'set:r/of-a', 'resumed behind its last line');
    $w->stop;
    $s->sql("SELECT fleetlog.trim_head('t', s, fleetlog.tail('t', s), NULL) FROM generate_series(0, 3) s");
    $w = FleetlogTest::Watch->start($s, 'st', "$dir/a3", @as_a, '-s', $last, '--snapshot-only');
    $w->{run}->finish;
    is($print->($w->lines), 'begin-snapshot row:r/of-a end-snapshot', 'trimmed meanwhile: the state again');

    # What will be refused again ends it, with a remedy.
    my $base = $node->connstr('fleetlog');
    for my $case (
        [ [ '-d', "$base user=b", '-n', 'st' ], qr/permission denied.*needs SELECT/s, 'no right' ],
        [ [ '-d', "$base user=nobody_at_all", '-n', 'st' ], qr/does not exist.*Connect as a role/s, 'no such role' ],
        [ [ '-d', $node->connstr('nowhere'), '-n', 'st' ], qr/does not exist.*Name the database/s, 'no such database' ],
        [ [ '-d', $base, '-n', 'nothing' ], qr/does not exist.*state_config/s, 'no such table' ],
        [ [ '-d', $base, '-n', 't' ], qr/not a state table/, 'no state table' ],
        [ [ '-d', $node->connstr('postgres'), '-n', 'st' ], qr/CREATE EXTENSION fleetlog/, 'no extension' ],
        [ [ '-d', $base, '-n', '-s', '{"lsn": "0/1"}', 'st' ], qr/not a position of watch/, "another kind's position" ],
        [ [ '-d', 'no=such option', '-n', 'st' ], qr/invalid connection option/, 'no connection string' ])
    {
        my ($command, $message, $what) = @$case;
        my ($out, $err) = ('', '');
        ok(!IPC::Run::run([ 'fleetlog-watch', @$command ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT)), "ends: $what");
        like($err, $message, "and says what helps: $what");
    }
}
is($s->crashes, '', 'no crash');
$node->stop;
done_testing();
