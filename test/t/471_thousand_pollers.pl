# S1: a thousand sessions that wait cost no CPU: while other streams are written for as long as it takes, the kernel puts
# none of their processes on a CPU. One record then wakes those that wait for its stream, each of them once, and no other.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Crowd;

my $few = 10;
my $all = 1000;
my $s = FleetlogTest->new('thousand', no_wait => 1, conf => "max_connections = 1060\nshared_buffers = 64MB\nfleetlog.mqtt_listen = ''\nautovacuum = off\n");

$s->sql("SELECT fleetlog.create_stream(n, shards => 2) FROM unnest(ARRAY['quiet', 'few', 'busy']) n");
# The first record of a shard makes rows of its own, of which sessions are told; the later ones do not.
$s->sql("SELECT fleetlog.append(st::regclass, 'k', 'first', shard => n) FROM unnest(ARRAY['quiet', 'few', 'busy']) st, generate_series(0, 1) n");
$s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = 'flusher' AND state <> 'starting'", 't', 'the flusher');

my $crowd = FleetlogTest::Crowd->new($s, $all);
my $waiting = sub { $s->wait_for('SELECT waiting FROM fleetlog.stat_wait', $_[0], "$_[0] sessions to wait") };
my $wakeups = sub { return $s->sql('SELECT wakeups FROM fleetlog.stat_wait') };
my $work = sub { return FleetlogTest::Crowd::work($crowd->pids(@_)) };
my $poll = sub {
    my ($i, $stream, $at) = @_;
    $crowd->send($i, "SELECT key, fleetlog.text(payload), shard, log_offset, next FROM fleetlog.poll('$stream', '$at', wait => '1 h')");
};

$poll->($_, $_ < $few ? 'few' : 'quiet', '{"0": 1, "1": 1}') for 0 .. $all - 1;
$waiting->($all);
# Who has just begun to wait may still be on his way to sleep.
$s->wait_asleep($crowd->pids);

my ($before, $woken) = ($work->(), $wakeups->());
$s->sql("SELECT count(fleetlog.append('busy', 'k' || n, 'x')) FROM generate_series(1, 10) n") for 1 .. 100;
my $after = $work->();
is($wakeups->(), $woken, 'a thousand records of another stream wake nobody');
is($after->{switches}, $before->{switches}, "$all waiting sessions were not put on a CPU once");
is($after->{ticks}, $before->{ticks}, 'and used no time on one');
is(scalar(grep { $crowd->has_answer($_) } 0 .. $all - 1), 0, 'none of them was answered');

# The few that wait for the stream that gets a record.
$before = $work->($few, $all - 1);
$s->sql("SELECT fleetlog.append('few', 'k', 'for the few', shard => 1)");
for my $i (0 .. $few - 1)
{
    my @rows = $crowd->take($i);
    is_deeply(\@rows, [ [ 'k', 'for the few', 1, 1, '{"0": 1, "1": 2}' ] ], "session $i has the record and where to go on");
}
is($wakeups->() - $woken, $few, 'one wake-up for each of them');
is($work->($few, $all - 1)->{switches}, $before->{switches}, 'the others slept on');

# All the others, by one record.
$woken = $wakeups->();
$s->sql("SELECT fleetlog.append('quiet', 'k', 'for the many', shard => 0)");
my $right = 0;
for my $i ($few .. $all - 1)
{
    my @rows = $crowd->take($i);
    $right++ if @rows == 1 && $rows[0][1] eq 'for the many' && $rows[0][4] eq '{"0": 2, "1": 1}';
}
is($right, $all - $few, 'one record ends all of the polls');
is($wakeups->() - $woken, $all - $few, 'by one wake-up each');
is($s->sql('SELECT waiting, empty_wakeups, timeouts FROM fleetlog.stat_wait'), '0|0|0', 'nobody waits any more, nobody looked in vain, no timer ran out');
note('proportional memory of a session that has waited: '
      . int((PostgreSQL::Test::Utils::slurp_file('/proc/' . ($crowd->pids)[ $all / 2 ] . '/smaps_rollup') =~ /^Pss:\s+(\d+)/m)[0]) . ' kB');

# take() by a consumer of his own each: two hundred wait, and one record is taken by each of them.
{
    my $takers = 200;
    $crowd->query($_, "SELECT count(*) FROM fleetlog.take('c$_', 'quiet')") for 0 .. $takers - 1;
    $crowd->send($_, "SELECT fleetlog.text(payload) FROM fleetlog.take('c$_', 'quiet', wait => '1 h')") for 0 .. $takers - 1;
    $waiting->($takers);
    $woken = $wakeups->();
    $s->sql("SELECT fleetlog.append('quiet', 'k', 'to take', shard => 1)");
    is(scalar(grep { my @rows = $crowd->take($_); @rows == 1 && $rows[0][0] eq 'to take' } 0 .. $takers - 1), $takers, "$takers consumers take one record each");
    is($wakeups->() - $woken, $takers, 'woken once each');
    is($s->sql("SELECT count(DISTINCT (shard, log_offset)) FROM fleetlog.consumer_position"), '2', 'and all stand behind it');
}

# The clients go away while their sessions wait: all of them end.
$poll->($_, 'quiet', '{"0": 100, "1": 100}') for 0 .. $all - 1;
$waiting->($all);
$crowd->close_all;
$waiting->(0);
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'", 't', 'sessions without a client to end');
pass('no session outlives its client');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
