# K3: idempotent producers and kill -9 of the server, at every point between the arrival of a batch and its answer with several in
# flight, and at random under librdkafka: what was acknowledged is there once, where it was said to be, and in order.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(usleep);
use FleetlogTest;
use FleetlogTest::Idempotent;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch record produce send_produce read_produce init_producer_id);

my $rounds = $ENV{FLEETLOG_ROUNDS} || 3;
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_idem_kill', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
CONF
$s->sql("SELECT fleetlog.create_stream('one'), fleetlog.create_stream('many', shards => 3)");

sub connect_kafka
{
    $s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');
    return FleetlogTest::Kafka->connect($port);
}

# ---- at stop points, by hand ----

sub numbered { my ($id, $first) = @_; return batch(records => [ map { record("p$id", $first + $_) } 0, 1 ], producer => [ $id, 0, $first ]); }

# Five batches of two are in flight; `reach` makes the server stand somewhere. It is killed, and all that was not answered comes again.
sub kill_in_flight
{
    my ($what, $reach) = @_;
    my $c = connect_kafka();
    my ($id) = init_producer_id($c);
    my %told;
    my ($r) = produce($c, 9, -1, [ 'one', 0, numbered($id, 0) ]);

    is($r->{error}, 0, "$what: the first one is written");
    $told{0} = $r->{offset};
    $reach->($c, sub { send_produce($c, 9, -1, [ 'one', 0, numbered($id, 2 * $_) ]) for 1 .. 5; }, sub { my ($i) = @_; my ($a) = read_produce($c, 9); $told{$i} = $a->{offset} if $a && !$a->{error}; });
    $s->kill9;
    $s->set_conf();
    $s->start_after_crash;
    $c = connect_kafka();
    # Five at most are in flight, and so may come again.
    for my $i (1 .. 7)
    {
        ($r) = produce($c, 9, -1, [ 'one', 0, numbered($id, 2 * $i) ]);
        is($r->{error}, 0, "$what: batch $i, again or anew") or diag($r->{message} // '');
        is($r->{offset}, $told{$i}, "$what: where it was said to be") if exists $told{$i};
        $told{$i} = $r->{offset};
    }
    is($s->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY log_offset) FROM one WHERE key = 'p$id'"), join(' ', 0 .. 15), "$what: all are there, once, in order");
    is($s->sql("SELECT string_agg(log_offset::text, ' ' ORDER BY log_offset) FROM one WHERE key = 'p$id'"), join(' ', map { ($told{$_}, $told{$_} + 1) } 0 .. 7), "$what: where it was said");
    return;
}

for my $point (qw(door_after_write door_after_commit door_before_flush appender_after_write appender_after_commit door_before_ack))
{
    kill_in_flight($point, sub {
        my ($c, $send) = @_;

        $s->stop_points($point);
        $send->();
        $s->wait_stopped_at($point);
    });
}
for my $answered (1, 4)
{
    kill_in_flight("behind $answered answers", sub { my ($c, $send, $read) = @_; $send->(); $read->($_) for 1 .. $answered; });
}

# ---- at random, by librdkafka ----

SKIP:
{
    skip 'confluent-kafka is not here', 1 unless FleetlogTest::Idempotent::is_here();
    my $producers = FleetlogTest::Idempotent->start(servers => "127.0.0.1:$port", topic => 'many', count => 3);

    for my $round (1 .. $rounds)
    {
        my $had = $s->sql('SELECT count(*) FROM many');

        $s->wait_for("SELECT count(*) > $had FROM many", 't', 'the producers to go on');
        usleep(100_000 + int rand 1_200_000);
        # Every other time where batches are written and not answered, which is the moment that makes duplicates.
        if ($round % 2) { $s->stop_points('door_before_ack'); $s->wait_stopped_at('door_before_ack'); }
        $s->kill9;
        $s->set_conf();
        $s->start_after_crash;
    }
    my $had = $s->sql('SELECT count(*) FROM many');
    $s->wait_for("SELECT count(*) > $had FROM many", 't', 'the producers to go on');
    $producers->finish;
    my ($faults, $sent) = $producers->check($s);

    is($faults, 0, "$sent records of 3 producers over $rounds times kill -9: none lost, none twice, each where it was said to be");
}
is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('many')"), 't', 'the log is sound');
done_testing();
