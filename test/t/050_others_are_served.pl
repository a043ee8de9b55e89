# O4, Q1: what one transaction, one shard, one database or one standby holds up concerns nobody else.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('others', conf => "fleetlog.shard_hold_timeout = 0\n");
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('held'), fleetlog.create_stream('telemetry');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1'), fleetlog.create_device('d2', 'acme', password => 'pw-d2');
SELECT fleetlog.mount('acme/d1/', 'held'), fleetlog.mount('acme/d2/', 'telemetry');
CREATE ROLE application;
GRANT INSERT ON held TO application;
SQL
my $on_held = $s->device('d1');
my $other = $s->device('d2');

# What holds others up lasts until the test ends it, or says itself when it ends: being served at all is the proof.
sub served
{
    my ($name, $client, $topic) = @_;
    is($client->publish_acked($topic, "during $name"), 0, "$name: served");
    return;
}

# An idle transaction that has publish()ed: nothing is held, since publish() writes at commit.
my $session = $s->session;
$session->query("SET ROLE application; BEGIN; SELECT fleetlog.publish('acme/d1/sql', 'from sql')");
is($session->error, '', 'publish() in a transaction');
served('idle after publish(), same stream', $on_held, 'acme/d1/t');
served('idle after publish(), other stream', $other, 'acme/d2/t');
is($s->sql("SELECT count(*) FROM held WHERE fleetlog.text(payload) = 'from sql'"), '0', 'publish() writes nothing before commit');
$session->query('COMMIT');
is($session->error, '', 'it commits');
is($s->sql("SELECT count(*) FROM held WHERE fleetlog.text(payload) = 'from sql' AND device IS NULL AND headers ->> 'fl.role' = 'application'"),
    '1', 'publish() wrote at commit, as a role and no device');

# One that holds the shard by append(): others go on meanwhile.
$session->query("BEGIN; SELECT fleetlog.append('held', 'k', 'holds the shard')");
is($session->error, '', 'append() in a transaction');
my $pid = $on_held->publish('acme/d1/t', 'waits for the shard', qos => 1);
served('shard held by append(), other stream', $other, 'acme/d2/t') for 1 .. 5;
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'", 't', 'the appender to leave the shard aside');
is($s->sql("SELECT count(*) FROM held WHERE fleetlog.text(payload) = 'waits for the shard'"), '0', 'the device on the held shard waits');
$session->query('ROLLBACK');
is($session->error, '', 'the holder ends when it likes');
is($on_held->expect('PUBACK')->{pid}, $pid, 'then the device on its shard is served');

# With shard_hold_timeout it is ended, and not before somebody has waited for it.
my $holder = $session->query('SELECT pg_backend_pid()');
$session->query("RESET ROLE; SET fleetlog.shard_hold_timeout = '2s'; BEGIN; SELECT fleetlog.append('held', 'k', 'holds the shard')");
$pid = $on_held->publish('acme/d1/t', 'waits once more', qos => 1);
is($on_held->expect('PUBACK')->{pid}, $pid, 'the device on the held shard is served after shard_hold_timeout');
is($s->sql("SELECT count(*) FROM pg_locks WHERE pid = $holder AND locktype = 'object'"), '0', 'which has ended the holder');
$session->query('COMMIT');
isnt($session->error, '', 'the holding session was ended');
$session->quit;
is($s->sql("SELECT count(*) FROM held WHERE fleetlog.text(payload) = 'holds the shard'"), '0', 'what it appended is gone');

# DROP DATABASE of another database needs every backend's attention to a barrier; nobody may be too busy for it.
$s->node->safe_psql('postgres', 'CREATE DATABASE other');
my $drop = $s->start_sql('SET lock_timeout = 0; DROP DATABASE other');
served('DROP DATABASE other', $other, 'acme/d2/t') for 1 .. 3;
my ($rc, undef, $err) = $s->finish_sql($drop);
is($rc, 0, 'DROP DATABASE other succeeds') or diag($err);

# A stopped synchronous standby with a SQL publish on a local stream: the SQL commit waits, the shard does not.
my $standby = $s->new_standby('standby1');
$standby->node->start;
$s->set_conf(synchronous_standby_names => 'FIRST 1 (standby1)');
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
$standby->node->stop('immediate');
my $publish = $s->start_sql("SELECT fleetlog.publish('acme/d2/sql', 'waits for the standby')");
$s->wait_for("SELECT count(*) = 1 FROM telemetry WHERE fleetlog.text(payload) = 'waits for the standby'", 't', 'the SQL publish to be written');
served('standby stopped, SQL commit waiting, same shard', $other, 'acme/d2/t') for 1 .. 3;
served('standby stopped, other stream', $on_held, 'acme/d1/t');
$s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%waits for the standby%' AND pid <> pg_backend_pid()",
    '1', 'the SQL commit to wait for the standby, as its user asked');
$standby->node->start;
($rc, undef, $err) = $s->finish_sql($publish);
is($rc, 0, 'the SQL commit returns when the standby is back') or diag($err);

# The error inside a publish() at commit ends the transaction, not the server or the workers.
my $refused = $s->sql_error("SELECT fleetlog.publish('nowhere/x', 'y')");
like($refused, qr/LF201/, 'publish() outside every mount is refused');
served('at the end', $other, 'acme/d2/t');
is($s->density_faults('held') . $s->density_faults('telemetry'), '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$standby->node->stop;
$s->node->stop;
done_testing();
