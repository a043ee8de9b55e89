# W2, W3, W4: writers change and clear keys at full speed; watchers attach, detach, are killed and resume at random, lose
# their slot, and find their history gone. For each, state plus changes is the writers' history: no gap, no duplicate,
# and after a fallback the keys that were deleted are gone.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Watch;

my $rounds = ($ENV{FLEETLOG_ROUNDS} // 3) >= 20 ? 100 : 5;
my $seed = $ENV{FLEETLOG_SEED} // int(rand(1 << 31));
srand($seed);
note("FLEETLOG_SEED=$seed");

my $s = FleetlogTest->new('torture', no_wait => 1, conf => "fleetlog.mqtt_listen = ''\n");
my $keys = 1000;
my $dir = PostgreSQL::Test::Utils::tempdir();
FleetlogTest::Watch::setup($s, 'st', $keys);

# One has all keys, one a prefix, one some keys only.
my $some = join ',', map { $_ % 2 ? "odd/$_" : "even/$_" } 1 .. 50;
my @watchers = (
    { name => 'all', options => [], where => 'true' },
    { name => 'even', options => [ '-p', 'even/' ], where => "key LIKE 'even/%'" },
    { name => 'some', options => [ '-k', $some ], where => "key = ANY (string_to_array('$some', ','))" });
$_->{fold} = FleetlogTest::Watch::Fold->new for @watchers;
my $runs = 0;

sub attach
{
    my ($w) = @_;
    my @since = defined $w->{fold}{position} ? ('-s', $w->{fold}{position}) : ();
    $w->{run} = FleetlogTest::Watch->start($s, 'st', "$dir/" . $w->{name} . ++$runs, '-S', $w->{name}, @{ $w->{options} }, @since);
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

attach($_) for @watchers;
for my $round (1 .. $rounds)
{
    my @writers = map { $s->start_sql('CALL write_many(' . (150 + int rand 150) . ')') } 1 .. 3;
    for my $step (1 .. 3)
    {
        select undef, undef, undef, rand(0.4);
        my $w = $watchers[ rand @watchers ];
        detach($w, rand() < 0.5 ? 'kill' : 'stop');
        my $what = rand();
        # Its history goes: the slot is dropped, or has moved on.
        if ($what < 0.2) { $s->sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '$w->{name}'") }
        elsif ($what < 0.4) { $s->sql("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots WHERE slot_name = '$w->{name}'") }
        # The connection is lost under a watcher that goes on by itself.
        elsif ($what < 0.6) { $s->sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL") }
        attach($w);
    }
    my @failed = grep { ($s->finish_sql($_))[0] != 0 } @writers;
    is(scalar @failed, 0, "round $round: the writers have done their work");
}

# Each sees the end of history, which a last write marks.
$s->sql('CALL write_many(20)');
my $end = $s->sql('SELECT pg_current_wal_lsn()');
for my $w (@watchers)
{
    # Slots that were dropped under a detached watcher come back when it attaches, so all have one by now.
    $s->wait_for("SELECT count(*) = 1 FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE s.slot_name = '$w->{name}' AND r.sent_lsn >= '$end'", 't', "watcher $w->{name} to have been sent all");
    my $last = -1;
    FleetlogTest::wait_until(sub { my $n = scalar $w->{run}->lines; my $same = $n == $last; $last = $n; select undef, undef, undef, 0.1 unless $same; return $same }, 'its output to be still');
    detach($w, 'stop');
    my $f = $w->{fold};
    note("$w->{name}: attached $w->{attached} times, $f->{snapshots} snapshots, $f->{changes} changes");
    is(join('; ', @{ $f->{faults} }), '', "$w->{name}: no gap, no duplicate, right order (seed $seed)");
    is($f->differs_from($s, 'st', $w->{where}), '', "$w->{name}: state plus changes is the table, deleted keys are gone");
    cmp_ok($f->{changes}, '>', 100, "$w->{name}: there was something to see");
}
is($s->crashes, '', 'no crash');
$s->sql('SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots');
$s->node->stop;
done_testing();
