# L3, M4, MQTT-4.6.0: when one of several batches under way is not written (a record that no one can write, the end of the
# appender, a new number of shards), none of what a device sent behind it is written before the device has sent it again;
# and whoever had nothing in that batch notices nothing.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('behind', conf => <<'CONF');
fleetlog.workers = 1
fleetlog.shard_hold_timeout = 0
fleetlog.ingest_memory = '64MB'
fleetlog.worker_retry = 100ms
fleetlog.max_xids_per_second = 0
CONF
$s->fleet(devices => 2, compression => 'none');
$s->sql(<<'SQL');
SELECT fleetlog.create_state('now');
SELECT fleetlog.alter_mount('acme/', state => 'now');
CREATE FUNCTION public.refuse_bad(value bytea) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF substr(value, 1, 2) = '\x3031' THEN RAISE EXCEPTION 'a value that the index does not take'; END IF;
	RETURN 1;
END $$;
SQL

# Batches are closed at 256 kB: two of these do not go into one.
my $fill = 'x' x 200_000;

sub numbers
{
    my ($device) = @_;
    return $s->sql("SELECT string_agg(convert_from(substr(payload, 1, 2), 'UTF8'), ' ' ORDER BY shard, log_offset) FROM telemetry WHERE device = '$device'");
}

sub aside { my ($n) = @_; $s->wait_for("SELECT coalesce(substring(state FROM 'running: (\\d+) batches')::int, 0) >= $n FROM fleetlog.stat_worker WHERE kind = 'appender'"); return; }
sub acks { my ($client, $n) = @_; for (1 .. $n) { eval { $client->expect('PUBACK'); 1 } or return $_ - 1; } return $n; }
sub in_order { my ($n) = @_; return join ' ', map { sprintf '%02d', $_ } 1 .. $n; }

# ---- A batch that cannot be written -----------------------------------------------------

for my $version (5, 4)
{
    $s->sql("CREATE INDEX poison ON now (public.refuse_bad(payload))");
    my $victim = $s->device('d1', version => $version);
    my $other = $s->device('d2');
    my $holder = $s->session;

    # While SQL holds the shard batch upon batch lies with the appender, the first with the record at fault alone.
    $holder->query("BEGIN; SELECT fleetlog.append('telemetry', 'k', 'holds the shard')");
    is($holder->error, '', "$version: SQL holds the shard");
    $victim->publish('acme/d1/t', '01', qos => 1, retain => 1, pid => 101);
    aside(1);
    for my $n (2 .. 8)
    {
        $victim->publish('acme/d1/t', sprintf('%02d', $n) . $fill, qos => 1, pid => 100 + $n);
        $other->publish('acme/d2/t', sprintf('%02d', $n), qos => 1);
    }
    aside(4);
    # The door learns of the failure alone, and has dealt with it, before the appender comes to those behind it.
    $s->stop_points('appender_after_failure');
    $holder->query('COMMIT');
    $s->wait_stopped_at('appender_after_failure');
    ok($other->ping, "$version: the door goes on");
    my $end = $victim->ending;
    $end = 'closed' if $version == 4;
    $s->stop_points();
    is($end, $version == 5 ? '0x80' : 'closed', "$version: the device whose record failed is told to come again");
    is(acks($other, 7), 7, "$version: another device, whose records were in the same batches as later ones of that device, has its PUBACKs");
    is(numbers('d1'), '', "$version: nothing of what was sent behind the failed record is written");
    is(numbers('d2'), join(' ', map { sprintf '%02d', $_ } 2 .. 8), "$version: all of the other device is, in order");

    # The reason is gone, and the device sends again what was not acknowledged.
    $s->sql('DROP INDEX poison');
    $victim = $s->device('d1', version => $version);
    $victim->publish('acme/d1/t', '01', qos => 1, retain => 1, pid => 101, dup => 1);
    $victim->publish('acme/d1/t', sprintf('%02d', $_) . $fill, qos => 1, pid => 100 + $_, dup => 1) for 2 .. 8;
    is(acks($victim, 8), 8, "$version: sent again, all are acknowledged");
    is(numbers('d1'), in_order(8), "$version: and stand in the log in the order of sending, once");
    is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('telemetry')"), 't', "$version: verify");
    $holder->quit;
    $victim->publish_acked('acme/d1/t', '', retain => 1);
    $s->sql("SELECT fleetlog.trim_head('telemetry', 0, fleetlog.tail('telemetry', 0), NULL)");
}

# ---- The appender ends with a batch in its hands, others wait behind it ------------------

my $device = $s->device('d1');
$s->stop_points('appender_after_write');
$device->publish('acme/d1/t', '01', qos => 1, pid => 101);
$s->wait_stopped_at('appender_after_write');
$device->publish('acme/d1/t', sprintf('%02d', $_) . $fill, qos => 1, pid => 100 + $_) for 2 .. 8;
ok($device->ping, 'all of it is with the door');
my $pid = $s->sql("SELECT pg_terminate_backend(pid)::int * pid FROM fleetlog.stat_worker WHERE kind = 'appender'");
$s->wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
$s->stop_points();
is(acks($device, 8), 8, 'an appender that is told to go ends its turn, and the next one sends the rest back to the door: all are acknowledged');
is(numbers('d1'), in_order(8), 'in the order of sending, once');
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, fleetlog.tail('telemetry', 0), NULL)");

# ---- Shards are added -----------------------------------------------------------------------

my $other = $s->device('d2');
my $holder = $s->session;
$holder->query("BEGIN; SELECT fleetlog.append('telemetry', 'k', 'holds the shard')");
is($holder->error, '', 'SQL holds the shard');
$device->publish('acme/d1/t', '01', qos => 1, pid => 101);
aside(1);
# The appender stands before it tells the door; the door learns of the new number of shards and goes on reading.
$s->stop_points('appender_after_commit');
$s->wait_stopped_at('appender_after_commit');
$holder->query("SELECT fleetlog.alter_stream('telemetry', shards => 3); COMMIT");
is($holder->error, '', 'shards were added while a batch waited');
$device->publish('acme/d1/t', sprintf('%02d', $_), qos => 1, pid => 100 + $_) for 2 .. 8;
$other->ping for 1 .. 5;
$s->stop_points();
is($device->ending, '0x80', 'a batch that was routed by the old number of shards is refused');
$device = $s->device('d1');
$device->publish('acme/d1/t', sprintf('%02d', $_), qos => 1, pid => 100 + $_, dup => 1) for 1 .. 8;
is(acks($device, 8), 8, 'the device sends again');
is(numbers('d1'), in_order(8), 'and nothing that it had sent behind the refused record was written before');
is($other->publish_acked('acme/d2/t', '09'), 0, 'the door serves others as before');

# ---- An error while a batch is answered ---------------------------------------------------

# The four are answered by one release: the second fails, and takes nobody along but its own device.
my @four = map { $s->device('d1', client_id => "four $_") } 1 .. 4;
$s->stop_points('flusher_before_flush');
$device->publish('acme/d1/four', 'holds the flush', qos => 1);
$s->wait_stopped_at('flusher_before_flush');
for my $n (1 .. 4)
{
    $four[ $n - 1 ]->publish('acme/d1/four', "four $n", qos => 1, pid => 300 + $n);
    ok($four[ $n - 1 ]->ping, "message $n is with the door");
}
$s->stop_points('ack_302_fails');
is(acks($_, 1), 1, 'answered, though the answer of another in the batch has failed') for @four[ 0, 2, 3 ];
is($four[1]->ending, 'closed', 'whose connection has ended without a word');
is(acks($device, 1), 1, 'the one that was flushed first is answered');
$s->stop_points();
is($four[2]->publish_acked('acme/d1/four', 'on'), 0, 'the others go on');
my $again = $s->device('d1', client_id => 'four 2');
is($again->publish_acked('acme/d1/four', 'four 2', dup => 1), 0, 'and that one, too, when it comes again');

# Of a batch that was not written: all its connections end, one of them by the error, and none of their later records is written.
$s->sql("CREATE INDEX poison ON now (public.refuse_bad(payload))");
my @three = map { $s->device('d1', client_id => "three $_", version => 4) } 1 .. 3;
$s->stop_points("ack_402_fails");
$holder->query("BEGIN; SELECT fleetlog.append('telemetry', 'acme/d1/three', 'holds the shard', shard => n) FROM generate_series(0, 2) n");
is($holder->error, '', 'SQL holds the shards');
for my $n (1 .. 3)
{
    $three[ $n - 1 ]->publish('acme/d1/three', "01 $n", qos => 1, retain => 1, pid => 400 + $n);
    $three[ $n - 1 ]->publish('acme/d1/three', "later $n $fill", qos => 1, pid => 410 + $n);
    ok($three[ $n - 1 ]->ping, "device $n has sent two");
}
$holder->query('COMMIT');
is($_->ending, 'closed', 'a connection whose record was not written ends') for @three;
$s->stop_points();
$s->sql('DROP INDEX poison');
is($device->publish_acked('acme/d1/three', 'on'), 0, 'the door goes on');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/three' AND fleetlog.text(payload) ~ '^(01|later)'"), '0', 'nothing of theirs is written');

is($s->crashes, '', 'no crash');
$holder->quit;
$s->node->stop;
done_testing();
