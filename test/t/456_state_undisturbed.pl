# R1, O4 (issue 4): a row of a state table that a session has locked and forgotten, and a snapshot that is held while 1,000
# topics keep their last values: other devices are served as before, and a row has a few versions only.  Counts are asserted;
# times are told.  Each situation lasts 6 s, with --long a minute.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;

my $seconds = $ENV{FLEETLOG_LONG} ? 60 : 6;
my $keys = 1000;
my $s = FleetlogTest->new('undisturbed', conf => "fleetlog.allow_anonymous = on\nautovacuum = off\nfleetlog.shard_hold_timeout = 0\n");
$s->sql(<<SQL);
SELECT fleetlog.create_stream('telemetry', shards => 2);
SELECT fleetlog.create_state('now'), fleetlog.create_state('latest');
SELECT fleetlog.mount('r/', 'telemetry', state => 'now'),
       fleetlog.mount('l/', 'telemetry', state => 'latest', keep => 'last', state_lag => '100 ms');
SELECT count(fleetlog.publish('r/' || i, 'first', retain => true)), count(fleetlog.publish('l/' || i, 'first')) FROM generate_series(1, $keys) i;
SQL
$s->wait_for("SELECT count(*) = $keys FROM latest");

my $n = 0;
sub client
{
    my $c = $s->raw;
    my $ack = $c->login(client_id => 'c' . ++$n);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return $c;
}

sub stat_state { my ($what) = @_; return $s->sql("SELECT $what FROM fleetlog.stat_state"); }

# A device that publishes to all topics of `r/` but the first, one after the other, each acknowledged; all topics of `l/` get a value every
# fifth of a second besides.  Returns how many it published, and how many were acknowledged.
my ($device, $flood) = (client(), client());
my $round = 0;
sub serve
{
    my ($what) = @_;
    my ($end, $next, $published, $acked, @took) = (time + $seconds, 0, 0, 0);

    while (time < $end)
    {
        if (time > $next)
        {
            $round++;
            $flood->publish("l/$_", "round $round") for 1 .. $keys;
            $next = time + 0.2;
        }
        my $begin = time;
        my $reason = $device->publish_acked('r/' . (2 + $published % ($keys - 2)), "v$published", retain => 1);
        push @took, time - $begin;
        $published++;
        $acked++ if $reason == 0;
    }
    @took = sort { $a <=> $b } @took;
    note(sprintf '%s: %d publishes, median %.2f ms, p99 %.2f ms, longest %.1f ms', $what, $published, map { 1000 * $took[ int($_ * $#took) ] } 0.5, 0.99, 1);
    return ($published, $acked);
}

my ($published, $acked) = serve('undisturbed');
is($acked, $published, 'undisturbed: all acknowledged');
is(stat_state('deferred'), 0, 'no value was put off');
my $usual = $published;

# One row of each table, locked by a session that sleeps.
my $holder = $s->session;
$holder->query("BEGIN; SELECT 1 FROM now WHERE key = 'r/1' FOR UPDATE; SELECT 1 FROM latest WHERE key = 'l/1' FOR UPDATE");
my $victim = client();
my $pid = $victim->publish('r/1', 'waits', qos => 1, retain => 1);
$s->wait_for('SELECT waiting = 1 FROM fleetlog.stat_state');
($published, $acked) = serve('a row locked');
is($acked, $published, 'a row locked: all others are acknowledged');
is(stat_state('waiting'), 1, 'one value waits, and only that');
ok($victim->quiet(0.1), 'its publisher has no PUBACK yet');
is($s->sql("SELECT count(*) FROM fleetlog.state_pending WHERE key NOT IN ('r/1', 'l/1')"), 0, 'no other topic was put off');
$s->wait_for("SELECT count(*) FROM latest WHERE key <> 'l/1' AND payload <> 'first'", $keys - 1, 'the other last values to go on into their table');
is($s->sql("SELECT convert_from(payload, 'UTF8') FROM fleetlog.retained WHERE key = 'l/1'") =~ /first|round/ ? 1 : 0, 1, 'the locked one can be read');
$holder->query('COMMIT');
is($victim->expect('PUBACK')->{pid}, $pid, 'the PUBACK comes with the end of the lock');
$s->wait_for('SELECT count(*) = 0 FROM fleetlog.state_pending');
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'round $round' FROM latest WHERE key = 'l/1'");
pass('and the last value, too');

# A snapshot that is held: every version of a row stays, so there must be few.
my $versions = "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'latest'";
sub versions_after_report { $s->sql('SELECT pg_stat_force_next_flush()'); return $s->sql($versions); }
$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM latest');
my $lag;
my $give_up = time + $FleetlogTest::TIMEOUT;
do
{
    serve('a snapshot held, at first');
    $lag = $s->sql('SELECT min(extract(epoch FROM lag_in_force)) FROM fleetlog.stat_state_last');
} until $lag >= 0.8 || time > $give_up;
cmp_ok($lag, '>=', 0.8, 'a snapshot held: the lag is stretched');
my $since = time;
my ($before, $flushes) = (versions_after_report(), $s->sql('SELECT sum(flushes) FROM fleetlog.stat_state_last'));
my $rounds = $round;
($published, $acked) = serve('a snapshot held');
is($acked, $published, 'a snapshot held: all acknowledged');
$flushes = $s->sql('SELECT sum(flushes) FROM fleetlog.stat_state_last') - $flushes;
my $per_key = (versions_after_report() - $before) / $keys;
note(sprintf '%d values per topic, %d flushes, %.1f versions per row', $round - $rounds, $flushes, $per_key);
# The lag is twice as long each time; a flush each tenth of a second would be ten a second.
my $most = 2 + log(1 + (time - $since) / $lag) / log(2);
cmp_ok($flushes, '<=', $most, 'flushes are few');
cmp_ok($per_key, '<=', $most, 'and so are versions of a row');
$s->wait_for("SELECT count(*) FROM fleetlog.retained WHERE key LIKE 'l/%' AND convert_from(payload, 'UTF8') = 'round $round'", $keys, 'the newest value of every topic to be had');
$holder->query('COMMIT');
$s->wait_for("SELECT count(*) = $keys FROM latest WHERE convert_from(payload, 'UTF8') = 'round $round'");
is($s->sql("SELECT string_agg(check_name || coalesce(detail, ''), '; ') FROM fleetlog.verify('telemetry') WHERE NOT ok"), '', 'verify');
is($s->crashes, '', 'no crash');
$holder->quit;
$s->node->stop;
done_testing();
