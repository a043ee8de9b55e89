# R1, R4, O4: what is under way when a mount is given a state table becomes a value or is history that a rebuild finds; values
# that wait for a lock keep nobody else waiting: not those behind them, not a front door, not other keys when one of
# them cannot be written at all.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('inflight', conf => "fleetlog.workers = 1\nfleetlog.shard_hold_timeout = 0\nfleetlog.max_xids_per_second = 0\n");
$s->fleet(devices => 2);
$s->sql("SELECT fleetlog.create_state('now'), fleetlog.create_state('other')");
my $device = $s->device('d1');
my $other = $s->device('d2');
my $holder = $s->session;

sub value { return $s->sql("SELECT convert_from(payload, 'UTF8') FROM now WHERE key = '$_[0]'"); }
sub faults { return $s->sql("SELECT string_agg(check_name || ': ' || coalesce(detail, ''), '; ') FROM fleetlog.verify('telemetry') WHERE NOT ok") }
sub waits { return "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND locktype = 'object' AND classid = 'pg_class'::regclass"; }

# ---- A mount is given a state table -----------------------------------------------------

# A batch that its door has routed before lies with the appender, because SQL holds the shard.
$holder->query("BEGIN; SELECT fleetlog.append('telemetry', 'k', 'holds the shard')");
my $pid = $device->publish('acme/d1/t', 'routed before', qos => 1);
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
$holder->query("SELECT fleetlog.alter_mount('acme/', state => 'now', keep => 'last', state_lag => '0'); COMMIT");
is($holder->error, '', 'alter_mount while a batch waits');
is($device->expect('PUBACK')->{pid}, $pid, 'then the batch is written');
is(value('acme/d1/t'), 'routed before', 'and its record is a value, for it was written behind the change');
is(faults(), '', 'verify finds nothing amiss');

# A transaction that wrote before the change and has not ended: the change waits for it, so that a rebuild finds its record.
$holder->query("BEGIN; SELECT fleetlog.append('telemetry', 'acme/d1/sql', 'written before')");
my $ddl = $s->start_sql("SELECT fleetlog.alter_mount('acme/', state => 'other'); SELECT fleetlog.rebuild_state('other')");
$s->wait_for(waits());
$holder->query('COMMIT');
my ($rc, undef, $err) = $s->finish_sql($ddl);
is($rc, 0, 'alter_mount waits for who holds the shard') or diag($err);
is(faults(), '', 'and the rebuild behind it has found his record');
is($s->sql("SELECT convert_from(payload, 'UTF8') FROM other WHERE key = 'acme/d1/sql'"), 'written before', 'which is a value now');

# publish() chooses the shard at commit: shards may be added between the call and the end of its transaction.
$holder->query("BEGIN; SELECT count(fleetlog.publish('acme/d1/m' || i, 'x')) FROM generate_series(1, 20) i");
$s->sql("SELECT fleetlog.alter_stream('telemetry', shards => 5)");
$holder->query('COMMIT');
is($holder->error, '', 'publish() over a change of the number of shards');
is($s->sql("SELECT count(*) FROM telemetry t, fleetlog._route(t.key) r WHERE key LIKE 'acme/d1/m%' AND t.shard <> r.shard"), 0,
    'every record is on the shard of its key');
# append() chooses it before it has the lock, for which it may have to wait.
$holder->query("BEGIN; SELECT count(fleetlog.append('telemetry', 'hold', 'x', shard => i)) FROM generate_series(0, 4) i");
my $append = $s->start_sql("SELECT fleetlog.append('telemetry', 'acme/d1/moved' || i, 'x') FROM generate_series(1, 1) i");
$s->wait_for(waits());
$holder->query("SELECT fleetlog.alter_stream('telemetry', shards => 13); COMMIT");
($rc, undef, $err) = $s->finish_sql($append);
is($rc, 0, 'append() over such a change') or diag($err);
is($s->sql("SELECT count(*) FROM telemetry t, fleetlog._route(t.key) r WHERE key LIKE 'acme/d1/moved%' AND t.shard <> r.shard"), 0,
    'its record, too');
is(faults(), '', 'state agrees');

# Last values that are not in their table yet, when they are to be written with their records from now on, when they are
# to follow with a lag again, and when the mount ends: the table has them all, at once.
$s->sql("SELECT fleetlog.create_state('last'); SELECT fleetlog.mount('acme/d1/l/', 'telemetry', state => 'last', keep => 'last', state_lag => '1 hour')");
sub last_rows { return $s->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY key) FROM last"); }
$device->publish_acked("acme/d1/l/$_", "one$_") for 1 .. 3;
$s->wait_for("SELECT keys = 3 FROM fleetlog.stat_state_last");
is(last_rows(), '', 'last values follow with a lag of an hour');
$s->sql("SELECT fleetlog.alter_mount('acme/d1/l/', state_lag => '0')");
is(last_rows(), 'one1 one2 one3', 'without a lag all are there');
$device->publish_acked('acme/d1/l/2', 'two2');
is(last_rows(), 'one1 two2 one3', 'and the next one comes with its record');
is(faults(), '', 'verify agrees');
$s->sql("SELECT fleetlog.alter_mount('acme/d1/l/', state_lag => '1 hour')");
is(faults(), '', 'and does when they follow again');
$device->publish_acked('acme/d1/l/3', 'three3');
$device->publish_acked('acme/d1/l/4', 'three4');
$s->sql("SELECT fleetlog.alter_mount('acme/d1/l/', keep => 'retained')");
is(last_rows(), 'one1 two2 three3 three4', 'a mount that keeps something else from now on leaves nothing behind');
$s->sql("SELECT fleetlog.alter_mount('acme/d1/l/', keep => 'last', state_lag => '1 hour')");
$device->publish_acked('acme/d1/l/1', 'four1');
$s->sql("SELECT fleetlog.unmount('acme/d1/l/')");
is(last_rows(), 'four1 two2 three3 three4', 'nor does one that ends');

# ---- Values that wait ----------------------------------------------------------------------

$s->sql(<<'SQL');
SELECT fleetlog.alter_mount('acme/', state => 'now', keep => 'retained');
SELECT fleetlog.rebuild_state('now');
SELECT count(fleetlog.publish('acme/d1/many/' || i, 'before', retain => true)) FROM generate_series(1, 300) i;
SELECT fleetlog.publish('acme/d2/one', 'before', retain => true), fleetlog.publish('acme/d2/two', 'before', retain => true);
SQL

# 300 rows are held, more than a page of them, and their values wait; one behind them is free again.
$holder->query("BEGIN; SELECT count(*) FROM (SELECT 1 FROM now WHERE key LIKE 'acme/d1/many/%' FOR UPDATE) l");
my $second = $s->session;
$second->query("BEGIN; SELECT 1 FROM now WHERE key = 'acme/d2/one' FOR UPDATE");
$s->sql("SELECT count(fleetlog.publish('acme/d1/many/' || i, 'after', retain => true)) FROM generate_series(1, 300) i");
$pid = $other->publish('acme/d2/one', 'after', qos => 1, retain => 1);
$s->wait_for('SELECT waiting = 301 FROM fleetlog.stat_state');
$second->query('COMMIT');
is($other->expect('PUBACK')->{pid}, $pid, 'a value whose lock is gone is written, although 300 older ones wait for theirs');
is(value('acme/d2/one'), 'after', 'it is');
is($s->sql("SELECT count(*) FROM now WHERE key LIKE 'acme/d1/many/%' AND payload = 'after'"), 0, 'those wait');
$holder->query('COMMIT');
$s->wait_for("SELECT count(*) = 300 FROM now WHERE key LIKE 'acme/d1/many/%' AND payload = 'after'");
$s->wait_for('SELECT waiting = 0 FROM fleetlog.stat_state');
pass('and are written when their locks are gone');

# One value that cannot be written, because an index of the owner's refuses it, keeps no other one from being written.
$s->sql(<<'SQL');
CREATE FUNCTION public.refuse_bad(value bytea) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
$$ BEGIN IF value = 'bad' THEN RAISE EXCEPTION 'a value that the index does not take'; END IF; RETURN 1; END $$;
CREATE INDEX poison ON now (public.refuse_bad(payload));
SQL
$holder->query("BEGIN; SELECT count(*) FROM (SELECT 1 FROM now WHERE key LIKE 'acme/d1/many/1%' OR key = 'acme/d2/two' FOR UPDATE) l");
$s->sql("SELECT count(fleetlog.publish('acme/d1/many/' || i, CASE i WHEN 15 THEN 'bad' ELSE 'good' END::bytea, retain => true)) FROM generate_series(10, 19) i");
$pid = $other->publish('acme/d2/two', 'good', qos => 1, retain => 1);
$s->wait_for('SELECT waiting = 11 FROM fleetlog.stat_state');
$holder->query('COMMIT');
is($other->expect('PUBACK')->{pid}, $pid, 'the value of another topic is written');
$s->wait_for('SELECT waiting = 1 FROM fleetlog.stat_state');
is($s->sql("SELECT count(*) FROM now WHERE payload = 'good'"), 10, 'so are all but the one that cannot be');
$s->sql('DROP INDEX poison');
$s->wait_for("SELECT payload = 'bad' FROM now WHERE key = 'acme/d1/many/15'");
pass('which is when the index is gone');

# Somebody locks the table of values that wait, at a time when one would have to wait: the door is not held up.
$holder->query("BEGIN; SELECT 1 FROM now WHERE key = 'acme/d2/one' FOR UPDATE");
$second->query('BEGIN; LOCK TABLE fleetlog.state_pending IN ACCESS EXCLUSIVE MODE');
is($second->error, '', 'the table of waiting values is locked');
$pid = $other->publish('acme/d2/one', 'third', qos => 1, retain => 1);
ok(eval { $device->ping }, 'the door serves its other clients');
is(eval { $device->publish_acked('acme/d1/free', "m$_", retain => 1) } // -1, 0, "and writes for them ($_)") for 1 .. 5;
is($s->sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'fleetlog.state_pending'::regclass"
    . " AND pid IN (SELECT pid FROM fleetlog.stat_worker WHERE kind IN ('front_door', 'appender'))"), 0, 'neither door nor appender waits for the lock');
$second->query('COMMIT');
$holder->query('COMMIT');
is($other->expect('PUBACK')->{pid}, $pid, 'afterwards the value is written and acknowledged');
is(value('acme/d2/one'), 'third', 'it is the last one');
is(faults(), '', 'state agrees');
is($s->density_faults, '', 'the log is dense');
is($s->crashes, '', 'no crash');
$_->quit for $holder, $second;
$s->node->stop;
done_testing();
