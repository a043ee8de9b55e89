# W1-W4: writers change and clear 1,000 keys at full speed, by publish() and by MQTT, retained and as last values; watchers
# with a slot, without one, and by watch() itself attach, detach, are killed and resume at random, lose their slot, and
# find their history gone; shards are added in between. For each, state plus changes is the writers' history: no gap, no
# duplicate, and after a fallback the keys that were deleted are gone.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Watch;

my $rounds = $ENV{FLEETLOG_WATCH_ROUNDS} // (($ENV{FLEETLOG_ROUNDS} // 3) >= 20 ? 100 : 5);
my $seed = $ENV{FLEETLOG_SEED} // int(rand(1 << 31));
srand($seed);
note("FLEETLOG_SEED=$seed, $rounds rounds");

my $s = FleetlogTest->new('torture', conf => "fleetlog.allow_anonymous = on\n");
my $dir = PostgreSQL::Test::Utils::tempdir();
FleetlogTest::Watch::setup($s, 1000);

# All keys, a prefix, some keys only; of what is retained and of last values. The plugin sees the table, which leaves out
# last values that come within the lag; watch() sees each.
my $some = join ',', 'r/even/end', map { $_ % 2 ? "r/odd/$_" : "r/even/$_" } 1 .. 50;
my @watchers = (
    { name => 'slot_all', table => 'st' },
    { name => 'slot_even', table => 'st', options => [ '-p', 'r/even/' ], where => "key LIKE 'r/even/%'" },
    { name => 'slot_some', table => 'st', options => [ '-k', $some ], where => "key = ANY (string_to_array('$some', ','))" },
    { name => 'slot_last', table => 'la', every => 0 },
    { name => 'all', table => 'st', no_slot => 1 },
    { name => 'some', table => 'st', no_slot => 1, options => [ '-k', $some ], where => "key = ANY (string_to_array('$some', ','))" },
    { name => 'last', table => 'la', no_slot => 1 },
    { name => 'sql', table => 'st', sql => 1, where => "key LIKE 'r/odd/%'" });
my ($sql) = grep { $_->{sql} } @watchers;
for my $w (@watchers)
{
    $w->{fold} = FleetlogTest::Watch::Fold->new(every => $w->{every});
    $w->{options} //= [];
    $w->{where} //= 'true';
    $w->{said} = '';
}
my $runs = 0;
my @cut_faults;

sub attach
{
    my ($w) = @_;
    my @since = defined $w->{fold}{position} ? ('-s', $w->{fold}{position}) : ();
    my @slot = $w->{no_slot} ? ('--no-slot') : ('-S', $w->{name});
    $w->{run} = FleetlogTest::Watch->start($s, $w->{table}, "$dir/" . $w->{name} . ++$runs, @slot, @{ $w->{options} }, @since);
    $w->{attached}++;
    return;
}

# Ends the process in some way and folds what it has printed.
sub detach
{
    my ($w, $how) = @_;
    if ($how eq 'kill') { $w->{run}->kill9 } else { $w->{run}->stop }
    $w->{fold}->line($_) for $w->{run}->lines;
    $w->{fold}->interrupted;
    $w->{said} .= $w->{run}->errors;
    delete $w->{run};
    $s->wait_for("SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name = '$w->{name}' AND active_pid IS NOT NULL", 't', 'the slot to be free');
    return;
}

# A reader of watch() who deals with some of what a call has told, and asks again behind that.
sub call_watch
{
    my ($all) = @_;
    my $f = $sql->{fold};
    my $since = defined $f->{position} ? "'$f->{position}'" : 'NULL';
    my $max = $all ? 100000 : 1 + int rand 300;
    my @lines = split /\n/, $s->sql("SELECT fleetlog._watch_json(event, stream, key, shard, log_offset, ts, headers, payload, position) FROM fleetlog.watch('st', $since, prefix => 'r/odd/', max_changes => $max)");

    @lines = splice @lines, 0, int rand(@lines + 1) if !$all && rand() < 0.5;
    $f->line($_) for @lines;
    $f->interrupted;
    $sql->{attached}++;
    return scalar @lines;
}

# A device that does by MQTT what the others do by SQL.
my $device = $s->raw;
$device->login(client_id => 'writer');
my %published;

sub publish_some
{
    for (1 .. 20)
    {
        my $topic = (rand() < 0.5 ? 'even/m' : 'odd/m') . int rand 20;
        my $n = ++$published{$topic};
        my $clears = $n % $FleetlogTest::Watch::CLEAR_EVERY == 0;
        $device->publish_acked("r/$topic", $clears ? '' : $n, retain => 1);
        $device->publish_acked("l/$topic", $clears ? '' : $n, retain => $clears);
    }
    return;
}

attach($_) for grep { !$_->{sql} } @watchers;
for my $round (1 .. $rounds)
{
    my @writers = map { $s->start_sql('CALL write_many(' . (60 + int rand 80) . ')') } 1 .. 3;
    for my $step (1 .. 4)
    {
        my ($w) = sort { rand() <=> 0.5 } grep { !$_->{sql} } @watchers;
        publish_some();
        call_watch();
        push @cut_faults, grep { $_ ne '' } split /\n/, $s->sql("SELECT cut_faults(s, p) FROM (VALUES ('st'::regclass, 'r/'), ('la', 'l/')) x (s, p), generate_series(1, 3)");
        detach($w, rand() < 0.5 ? 'kill' : 'stop');
        my $what = rand();
        # Its history goes: the slot is dropped, or has moved on, or the log is trimmed.
        if ($what < 0.2)
        {
            $s->sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '$w->{name}'");
            $s->sql("SELECT fleetlog.trim_head('t', s, fleetlog.tail('t', s), NULL) FROM fleetlog.stream, generate_series(0, shards - 1) s WHERE stream.stream = 't'::regclass") if $w->{no_slot};
        }
        elsif ($what < 0.4) { $s->sql("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots WHERE slot_name = '$w->{name}'") }
        # The connection is lost under a watcher that goes on by itself.
        elsif ($what < 0.6) { $s->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fleetlog-watch'") }
        attach($w);
    }
    # Topics move to another shard, in the middle of everything.
    $s->sql("SELECT fleetlog.alter_stream('t', shards => 4)") if $round == 2;
    my @failed = grep { ($s->finish_sql($_))[0] != 0 } @writers;
    is(scalar @failed, 0, "round $round: the writers have done their work");
}

is(join("\n", @cut_faults), '', 'each state that watch() told was that of its position, in the middle of the writes');

# Enough for everybody: who came late, or lost his place often, has been told states rather than changes.
my $give_up = time + $FleetlogTest::TIMEOUT;
my $changes = sub { my ($w) = @_; return $w->{fold}{changes} + ($w->{run} ? scalar(grep { /"event": ?"(?:set|clear)"/ } $w->{run}->lines) : 0) };
while (time < $give_up && grep { $changes->($_) <= 100 } @watchers)
{
    $s->sql('CALL write_many(50)');
    1 while call_watch(1);
}

# A last write, which each sees.
$s->sql("SELECT fleetlog.publish(m || p || '/end', 'end', retain => true) FROM unnest(ARRAY['r/', 'l/']) m, unnest(ARRAY['even', 'odd']) p");
1 while call_watch(1);
$s->wait_for('SELECT coalesce(sum(keys), 0) FROM fleetlog.stat_state_last', 0, 'last values to be in their table');
for my $w (@watchers)
{
    my $f = $w->{fold};
    if ($w->{run})
    {
        FleetlogTest::wait_until(sub { grep { m{/end"} } $w->{run}->lines }, "$w->{name} to see the end");
        # The second one of the two that end it may be on its way.
        my $last = -1;
        FleetlogTest::wait_until(sub { my $n = scalar $w->{run}->lines; my $same = $n == $last; $last = $n; select undef, undef, undef, 0.2 unless $same; return $same }, 'its output to be still');
        detach($w, 'stop');
    }
    note("$w->{name}: attached $w->{attached} times, $f->{snapshots} snapshots, $f->{changes} changes");
    is(join('; ', @{ $f->{faults} }), '', "$w->{name}: no gap, no duplicate, right order (seed $seed)");
    is($f->differs_from($s, $w->{table}, $w->{where}), '', "$w->{name}: state plus changes is the table, deleted keys are gone");
    cmp_ok($f->{changes}, '>', 100, "$w->{name}: there was something to see");
}
is($s->sql("SELECT string_agg(check_name || ': ' || coalesce(detail, ''), '; ') FROM fleetlog.verify('t') WHERE NOT ok"), '', 'the tables are what the log implies');
is($s->crashes, '', 'no crash');
$s->sql('SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots');
$s->node->stop;
done_testing();
