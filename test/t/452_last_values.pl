# R1: keep => 'last': every message updates its topic's last value, current in memory at once, in the table within
# state_lag, folded from the log again after a crash; under a snapshot that somebody holds the number of versions of a
# row stays small.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('last', conf => "fleetlog.allow_anonymous = on\nfleetlog.last_value_memory = '64kB'\nautovacuum = off\n");
$s->sql(<<SQL);
SELECT fleetlog.create_stream('telemetry', shards => 2);
SELECT fleetlog.create_state('last'), fleetlog.create_state('slow');
SELECT fleetlog.mount('l/', 'telemetry', state => 'last', keep => 'last', state_lag => '200 ms'),
       fleetlog.mount('s/', 'telemetry', state => 'slow', keep => 'last', state_lag => '1 hour');
SQL

my $n = 0;
sub client
{
    my $c = $s->raw;
    my $ack = $c->login(client_id => 'c' . ++$n);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return $c;
}
my $p = client();

# In the table by itself, without anybody asking.
$p->publish_acked('l/a', "v$_") for 1 .. 5;
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'v5' FROM last WHERE key = 'l/a'");
is($s->sql("SELECT count(*) FROM last n JOIN telemetry t USING (shard, log_offset) WHERE n.payload = t.payload AND n.ts = t.ts AND n.headers = t.headers"), 1,
    'the row is its record');

# Current at once: an hour's lag, and the value is to be had.
$p->publish_acked('s/a', 'first');
$p->publish_acked('s/a', 'second');
$p->publish_acked('s/big', 'x' x 5000);
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'second' FROM fleetlog.retained WHERE key = 's/a'");
is($s->sql("SELECT length(payload) FROM fleetlog.retained WHERE key = 's/big'"), 5000, 'a value larger than its slot is read from the log');
is($s->sql('SELECT count(*) FROM slow'), 0, 'the table has none of them yet');
is($s->sql("SELECT keys FROM fleetlog.stat_state_last WHERE state = 'slow'::regclass"), 2, 'the view tells how many wait');
my $c = client();
$c->subscribe([ [ 's/a', 1 ] ]);
my ($m) = $c->messages(1);
is("$m->{payload} $m->{retain}", 'second 1', 'a subscriber to the topic gets it');
$p->publish('s/a', '', retain => 1);
$s->wait_for("SELECT count(*) = 0 FROM fleetlog.retained WHERE key = 's/a'");
pass('a retained empty message clears it');

# A wildcard is answered from the table, which is brought up to date for it.
$p->publish_acked("l/w/$_", "w$_") for 1 .. 20;
$c = client();
$c->subscribe([ [ 'l/w/+', 1 ] ]);
my @all = $c->messages(20);
is(join(' ', sort map { $_->{payload} } @all), join(' ', sort map { "w$_" } 1 .. 20), 'a wildcard subscriber gets all of them');

# What a trim passes is in the table first, however long the lag: the log was all that it was kept in.
$s->sql("SELECT fleetlog.publish('s/trimmed/' || i, convert_to(i::text, 'UTF8')) FROM generate_series(1, 10) i");
$s->sql("SELECT fleetlog.trim_head('telemetry', n, fleetlog.tail('telemetry', n), NULL) FROM generate_series(0, 1) n");
is($s->sql("SELECT count(*) FROM slow WHERE key LIKE 's/trimmed/%'"), 10, 'the table has what a trim has taken from the log');
# It waits no longer than for a shard, and says why.
{
    my $locked = $s->start_sql("BEGIN; LOCK TABLE slow; SELECT pg_sleep(1000)");
    $s->wait_for("SELECT count(*) FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'AccessExclusiveLock' AND granted", 1, 'somebody to lock the table');
    $s->sql("SELECT fleetlog.publish('s/trimmed/1', 'newer')");
    like($s->sql_error("SET fleetlog.shard_lock_timeout = '100ms'; SELECT fleetlog.trim_head('telemetry', n, fleetlog.tail('telemetry', n), NULL) FROM generate_series(0, 1) n"),
        qr/last values of shard \d of stream "telemetry" are not in their table yet/, 'a trim of values that cannot be written is refused');
    $s->sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'AccessExclusiveLock'");
    $s->finish_sql($locked);
    $s->sql("SELECT fleetlog.trim_head('telemetry', n, fleetlog.tail('telemetry', n), NULL) FROM generate_series(0, 1) n");
    is($s->sql("SELECT convert_from(payload, 'UTF8') FROM slow WHERE key = 's/trimmed/1'"), 'newer', 'and goes on when they are');
}

# More keys than there are slots (64 kB: 128): flushed early, none lost, although the lag is an hour.
$s->sql("SELECT count(fleetlog.publish('s/many/' || i, convert_to(i::text, 'UTF8'))) FROM generate_series(1, 1000) i");
$s->wait_for("SELECT count(*) = 1000 FROM fleetlog.retained WHERE key LIKE 's/many/%'");
$s->wait_for("SELECT early_flushes > 3 FROM fleetlog.stat_state_last WHERE state = 'slow'::regclass", 't', 'slots that ran out to be flushed early');
is($s->sql("SELECT count(*) FROM fleetlog.retained WHERE key LIKE 's/many/%' AND split_part(key, '/', 3) <> convert_from(payload, 'UTF8')"), 0, 'each with its own value');

# After a crash what was not in the table is folded again.
$p->publish_acked('s/many/7', 'newer');
# One that finds the slots used up is written with what was there; the next one finds room.
my ($crash, $early);
for my $try (1 .. 10)
{
    $crash = "s/crash$try";
    $p->publish_acked($crash, 'kept');
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.retained WHERE key = '$crash'");
    $early = $s->sql("SELECT count(*) FROM slow WHERE key = '$crash'");
    last unless $early;
}
is($early, 0, 'not in the table before the crash');
$s->kill9_and_start;
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.retained WHERE key = '$crash'");
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'newer' FROM fleetlog.retained WHERE key = 's/many/7'");
pass('the log has brought them back');

# A crash between the values and the commit of their offset: both are taken back together.
$p = client();
$s->stop_points('state_before_flush_commit');
$p->publish_acked('l/a', 'after');
$s->wait_stopped_at('state_before_flush_commit');
$s->kill9;
$s->set_conf;
$s->start_after_crash;
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'after' FROM last WHERE key = 'l/a'");
is($s->sql("SELECT count(*) FROM (SELECT key FROM last GROUP BY key HAVING count(*) > 1) d"), 0, 'once each');

# A held snapshot: 100 topics written over and over for many lags; versions per key grow with the logarithm of the time.
$p = client();
my $holder = $s->session;
$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM last');
my $flushes = sub { return $s->sql("SELECT flushes FROM fleetlog.stat_state_last WHERE state = 'last'::regclass") };
my $stretched = sub { return $s->sql("SELECT lag_in_force > state_lag FROM fleetlog.stat_state_last WHERE state = 'last'::regclass") eq 't' };
my ($t0, $before) = (time, $flushes->());
my $rounds = 0;
do
{
    $p->publish("l/h/$_", "r$rounds") for 1 .. 100;
    $p->publish_acked('l/h/0', "r$rounds");
    $rounds++;
} while (time < $t0 + 15 || (!$stretched->() && time < $t0 + $FleetlogTest::TIMEOUT));
ok($stretched->(), 'the view shows that the lag is stretched');
my $few = $flushes->() - $before;
my $took = time - $t0 + 1;
note("$rounds rounds of 101 topics in $took s, $few flushes");
# Each lag is twice the one before: as many flushes as 200 ms can be doubled, and a few before and behind.
my $most = 4 + log($took / 0.2) / log(2);
cmp_ok($few, '<=', $most, sprintf 'a lag of 200 ms would have flushed %d times: with the snapshot held it is a few', $took * 5);
is($s->sql("SELECT convert_from(payload, 'UTF8') FROM fleetlog.retained WHERE key = 'l/h/0'"), 'r' . ($rounds - 1), 'the newest value is to be had all the same');
$holder->query('COMMIT');
$s->wait_for("SELECT count(*) = 101 FROM last WHERE key LIKE 'l/h/%' AND convert_from(payload, 'UTF8') = 'r" . ($rounds - 1) . "'");
$p->publish_acked('l/h/0', 'again');
$s->wait_for("SELECT lag_in_force = state_lag FROM fleetlog.stat_state_last WHERE state = 'last'::regclass");
pass('without the snapshot the lag is what it was set to');

done_testing();
