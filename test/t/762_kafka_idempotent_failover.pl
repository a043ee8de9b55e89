# K3, H1: idempotent producers over a failover. What they had acknowledged under a quorum is on the standby that is promoted, once; what
# they repeat is recognised there; ids go on under another timeline.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Idempotent;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch record produce init_producer_id);

# Both have the port, one after the other, as a service's address moves.
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('old', conf => "fleetlog.kafka_listen = '127.0.0.1:$port'\nfleetlog.allow_anonymous = on\n");
my $standby = $s->new_standby('new');
$standby->node->start;
$s->wait_for('SELECT count(*) FROM pg_stat_replication', 1, 'the standby to be connected');
$s->set_conf('synchronous_standby_names' => '*');
$s->wait_for("SELECT bool_or(sync_state IN ('sync', 'quorum')) FROM pg_stat_replication", 't', 'the standby to be waited for');
$s->sql("SELECT fleetlog.create_stream('raw', durability => 'quorum'), fleetlog.create_stream('many', shards => 3, durability => 'quorum')");

sub connect_kafka
{
    my ($server) = @_;

    $server->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');
    return FleetlogTest::Kafka->connect($port);
}

sub numbered { my ($id, $first) = @_; return batch(records => [ map { record("p$id", $first + $_) } 0, 1 ], producer => [ $id, 0, $first ]); }
sub answer { my ($c, $id, $first) = @_; my ($r) = produce($c, 9, -1, [ 'raw', 0, numbered($id, $first) ]); return "$r->{error} $r->{offset}"; }

my $c = connect_kafka($s);
my ($id) = init_producer_id($c);
is(answer($c, $id, 2 * $_), '0 ' . 2 * $_, 'confirmed by the standby') for 0 .. 6;

my $here = FleetlogTest::Idempotent::is_here();
my $producers;
if ($here)
{
    $producers = FleetlogTest::Idempotent->start(servers => "127.0.0.1:$port", topic => 'many', count => 2, rate => 800);
    $s->wait_for('SELECT count(*) > 3000 FROM many', 't', 'the producers to be at work');
}
$s->kill9;
$standby->node->promote;
# Until there is another standby nothing can be confirmed by one.
$standby->sql("SELECT fleetlog.alter_stream('$_', durability => 'local')") for qw(raw many);
$c = connect_kafka($standby);

is(answer($c, $id, 2 * $_), '0 ' . 2 * $_, 'a batch that comes again is recognised by the promoted standby') for 2 .. 6;
is(answer($c, $id, 0), '46 -1', 'an older one, too');
is(answer($c, $id, 16), '45 -1', 'a gap is one');
is(answer($c, $id, 14), '0 14', 'the producer goes on');
my ($new) = init_producer_id($c);
isnt($new >> 47, $id >> 47, 'ids are of another timeline');
is($standby->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY log_offset) FROM raw"), join(' ', 0 .. 15), 'each record is there once');

SKIP:
{
    skip 'confluent-kafka is not here', 1 unless $here;
    my $had = $standby->sql('SELECT count(*) FROM many');
    $standby->wait_for("SELECT count(*) > $had + 1000 FROM many", 't', 'the producers to go on');
    $producers->finish;
    my ($faults, $sent) = $producers->check($standby);

    is($faults, 0, "$sent records of 2 producers over a failover: none lost, none twice, each where it was said to be");
}
is($standby->sql("SELECT bool_and(ok) FROM fleetlog.verify('many')"), 't', 'the log is sound');
done_testing();
