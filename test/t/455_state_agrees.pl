# R1, R4, Q4: state agrees with the log's order, whoever writes: two devices and two SQL sessions race for the same topics,
# shards are added in between, producers choose a foreign shard, rows are locked now and then; verify finds no fault at any
# moment, and rebuild_state mends planted ones while all that goes on.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('agrees', conf => "fleetlog.allow_anonymous = on\nfleetlog.shard_hold_timeout = 0\n");
$s->sql(<<SQL);
SELECT fleetlog.create_stream('telemetry', shards => 2);
SELECT fleetlog.create_state('now'), fleetlog.create_state('last');
SELECT fleetlog.mount('r/', 'telemetry', state => 'now'),
       fleetlog.mount('l/', 'telemetry', state => 'last', keep => 'last', state_lag => '100 ms');
CREATE PROCEDURE race(seconds float8, seed float8, shards int) LANGUAGE plpgsql AS \$\$
DECLARE
	stop timestamptz := clock_timestamp() + seconds * interval '1 s';
	topic text;
BEGIN
	PERFORM setseed(seed);
	WHILE clock_timestamp() < stop LOOP
		IF random() < 0.2 THEN
			-- A Kafka-style tombstone on a shard of the producer's choice; alone, since it takes its shard at once.
			topic := CASE WHEN random() < 0.3 THEN 'l/' ELSE 'r/' END || (random() * 7)::int;
			-- And its ordinary records, which are values where a mount keeps the last.
			PERFORM fleetlog.append('telemetry', topic, CASE WHEN random() < 0.5 THEN convert_to('k' || clock_timestamp(), 'UTF8') END,
				shard => (random() * (shards - 1))::int);
			COMMIT;
			CONTINUE;
		END IF;
		FOR i IN 1 .. 1 + (random() * 3)::int LOOP
			topic := CASE WHEN random() < 0.3 THEN 'l/' ELSE 'r/' END || (random() * 7)::int;
			IF random() < 0.2 THEN
				PERFORM fleetlog.publish(topic, '', retain => true);
			ELSE
				PERFORM fleetlog.publish(topic, convert_to(clock_timestamp()::text, 'UTF8'), retain => random() < 0.8);
			END IF;
		END LOOP;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END \$\$;
SQL

my @clients;
for my $i (0, 1)
{
    my $c = $s->raw;
    my $ack = $c->login(client_id => "racer$i");
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    push @clients, $c;
}

# Both devices write the same eight topics, retained, some of them empty; SQL does so at the same time.
sub faults { return $s->sql("SELECT string_agg(check_name || ': ' || coalesce(detail, ''), '; ') FROM fleetlog.verify('telemetry') WHERE NOT ok") }

my ($unacked, $rounds) = (0, 0);
sub devices
{
    my ($n, $later) = @_;
    for (1 .. $n)
    {
        for my $c (@clients)
        {
            my $topic = (rand() < 0.3 ? 'l/' : 'r/') . int(rand 8);
            $c->publish($topic, rand() < 0.15 ? '' : 'd' . ++$rounds, qos => 1, retain => rand() < 0.8 ? 1 : 0);
        }
        $unacked++;
        next if $later;
        # Somebody may hold the shard: the answer comes later, not never.
        for my $c (@clients) { $c->expect('PUBACK') for 1 .. $unacked }
        $unacked = 0;
    }
    return;
}

srand 7;
for my $step (1 .. 3)
{
    my $shards = 1 + $step;
    my @sql = map { $s->start_sql("CALL race(4, 0.$_$step, $shards)") } 1, 2;
    my $holder = $s->session;
    my $end = time + 4;
    while (time < $end)
    {
        $holder->query("BEGIN; SELECT count(*) FROM (SELECT 1 FROM now WHERE key IN ('r/1', 'r/2') FOR UPDATE) l");
        devices(5, 'while rows are locked some answers wait');
        $holder->query('COMMIT') ;
        devices(10);
        is(faults(), '', "no fault while everybody writes ($shards shards)");
        last if time >= $end;
        $s->sql("UPDATE now SET payload = 'planted' WHERE key = 'r/5'; DELETE FROM now WHERE key = 'r/6'");
        $s->sql("SELECT fleetlog.rebuild_state('now')");
        is(faults(), '', 'nor after a rebuild beside the writers');
    }
    for my $h (@sql)
    {
        my ($rc, $out, $err) = $s->finish_sql($h);
        ok($rc == 0 || $err =~ /could not serialize|written at the same time/, 'the SQL session ended well') or diag($err);
    }
    $s->sql("SELECT fleetlog.alter_stream('telemetry', shards => $shards + 1)") if $step < 3;
}
# When nobody writes any more, nothing waits, and the tables are exactly the last of each key.
$s->wait_for('SELECT count(*) = 0 FROM fleetlog.state_pending');
$s->wait_for("SELECT sum(keys) = 0 FROM fleetlog.stat_state_last");
is(faults(), '', 'no fault at the end');
is($s->sql(<<SQL), '', 'and SQL over the history says the same');
WITH h AS (SELECT DISTINCT ON (key) key, shard, log_offset, payload FROM telemetry
	WHERE key LIKE 'l/%' OR headers ->> 'fl.retain' = '1' OR payload IS NULL ORDER BY key, ts DESC, shard DESC, log_offset DESC),
     v AS (SELECT key, shard, log_offset FROM h JOIN telemetry t USING (key, shard, log_offset)
	WHERE h.payload IS NOT NULL AND NOT (h.payload = '' AND t.headers ->> 'fl.retain' = '1')),
     t AS (SELECT key, shard, log_offset FROM now UNION ALL SELECT key, shard, log_offset FROM last)
(SELECT * FROM v EXCEPT SELECT * FROM t) UNION ALL (SELECT * FROM t EXCEPT SELECT * FROM v)
SQL
# A value that has to wait, whether or not one had to above.
my $locker = $s->session;
$s->sql("SELECT fleetlog.publish('r/1', 'there', retain => true), fleetlog.publish('r/2', 'there', retain => true)");
$locker->query("BEGIN; SELECT 1 FROM now WHERE key = 'r/1' FOR UPDATE");
$s->sql("SELECT fleetlog.publish('r/1', 'waits', retain => true), fleetlog.publish('r/2', '', retain => true)");
$s->wait_for("SELECT waiting = 1 FROM fleetlog.stat_state");
$locker->query('COMMIT');
$s->wait_for('SELECT count(*) = 0 FROM fleetlog.state_pending');
$locker->quit;
# Nobody mends any more: a planted fault stays, and is found.
my $victim = 'r/victim';
$s->sql("SELECT fleetlog.publish('$victim', 'true', retain => true)");
$s->sql("UPDATE now SET payload = 'planted' WHERE key = '$victim'");
like(faults(), qr/state now: .* 1 differ: key "\Q$victim\E" has another value/, 'a planted fault is found');
$s->sql("SELECT fleetlog.rebuild_state('now')");
is(faults(), '', 'and mended');
like($s->sql("SELECT applied || ' ' || cleared || ' ' || deferred || ' ' || stale FROM fleetlog.stat_state"), qr/^[1-9]\d* [1-9]\d* [1-9]\d* \d+$/,
    'values were written, cleared and put off: ' . $s->sql("SELECT to_json(s) FROM fleetlog.stat_state s"));

done_testing();
