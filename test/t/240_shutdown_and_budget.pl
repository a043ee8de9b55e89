# DESIGN "Acknowledgement", O6: a shutdown pays what is owed; a transaction budget stretches turns and starves nobody; and
# the host's defaults for sessions do not change what workers do.
use strict;
use warnings;
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);
use FleetlogTest;

my $s = FleetlogTest->new('budget', conf => "wal_writer_delay = 10s\n");
$s->fleet;
my $node = $s->node;

# Fast shutdown with an acknowledgement owed: the record is committed and not flushed.
my $device = $s->device('d1');
$s->stop_points('flusher_before_flush');
my $pid = $device->publish('acme/d1/t', 'owed', qos => 1);
$s->wait_stopped_at('flusher_before_flush');
my $at = -s $node->logfile;
# The flusher stands at a point that nobody takes away.
$node->stop('fast');
pass('a fast shutdown is not held up');
my $p = $device->read_packet;
is(ref $p ? "$p->{name} " . ($p->{pid} // '') : 'closed', "PUBACK $pid", 'the acknowledgement that was owed goes out');
is($device->ending, '0x8B', 'then the server says that it shuts down');
unlike(slurp_file($node->logfile, $at), qr/fleetlog \w+ (ERROR|FATAL|PANIC)/, 'nobody ends with an error');
$s->set_conf();
$node->start;
$s->wait_for_mqtt;
is($s->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = 'owed'"), '1', 'it is stored');

# The budget: far less than one transaction a message, and everything arrives.
$s->set_conf('fleetlog.max_xids_per_second' => 10);
$s->wait_for('SHOW fleetlog.max_xids_per_second', '10');
$device = $s->device('d1');
my $other = $s->device('d2');
my $begin = time;
my $used = $s->sql('SELECT xids_used FROM fleetlog.stat_server');
for (1 .. 60) { $device->publish_acked('acme/d1/budget', "n$_") == 0 && $other->publish_acked('acme/d2/budget', "n$_") == 0 or last; }
$used = $s->sql('SELECT xids_used FROM fleetlog.stat_server') - $used;
my $took = time - $begin;
is($s->sql("SELECT count(*) FROM telemetry WHERE key LIKE '%/budget'"), '120', 'with ten transactions a second 120 lone messages arrive');
cmp_ok($used, '<=', 10 * ($took + 1) + 2, "and no more transactions are used than allowed ($used in $took s)");
$begin = time;
$used = $s->sql('SELECT xids_used FROM fleetlog.stat_server');
for my $n (1 .. 300) { $device->publish('acme/d1/many', "n$n", qos => 0); $other->publish('acme/d2/many', "n$n", qos => 0); }
$s->wait_for("SELECT count(*) = 600 FROM telemetry WHERE key LIKE '%/many'");
$used = $s->sql('SELECT xids_used FROM fleetlog.stat_server') - $used;
cmp_ok($used, '<=', 10 * (time - $begin + 1) + 2, 'many at once share transactions');

# While a batch waits for a shard that SQL holds, the appender looks again and again, which costs no transaction id.
$s->set_conf('fleetlog.max_xids_per_second' => 1000, 'fleetlog.shard_hold_timeout' => 0);
$s->wait_for('SHOW fleetlog.shard_hold_timeout', '0');
my $session = $s->session;
$session->query("BEGIN; SELECT fleetlog.append('telemetry', 'k', 'holds the shard')");
$device->publish('acme/d1/held', 'n1', qos => 1);
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
my ($turns, $taken) = split /\|/, $s->sql("SELECT turns, xids_used FROM fleetlog.stat_worker, fleetlog.stat_server WHERE kind = 'appender'");
$s->wait_for("SELECT turns >= $turns + 30 FROM fleetlog.stat_worker WHERE kind = 'appender'");
cmp_ok($s->sql('SELECT xids_used FROM fleetlog.stat_server') - $taken, '<=', 10, 'a look at a held shard takes nothing from the budget');
$session->query('COMMIT');
is($device->expect('PUBACK')->{reason}, 0, 'afterwards it is written');
$session->quit;
$s->set_conf();

# Defaults that would stop any ordinary writer.
$node->append_conf('postgresql.conf', <<CONF);
default_transaction_read_only = on
default_transaction_isolation = serializable
statement_timeout = 1ms
lock_timeout = 1ms
synchronous_commit = off
CONF
$node->restart;
# They concern our own queries.
$ENV{PGOPTIONS} = '-c statement_timeout=0 -c lock_timeout=0';
$s->wait_for_mqtt;
$device = $s->device('d1');
is($device->publish_acked('acme/d1/defaults', 'x'), 0, 'read-only defaults of the host do not concern the workers');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/defaults'"), '1', 'it is stored');
is($s->crashes, '', 'no crash');
$node->stop;
done_testing();
