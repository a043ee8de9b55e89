# K2, K5, L6: where a Kafka client may begin: the ends of a partition, exact times by the stream's timestamp_type, the latest time,
# leader epochs.  Cases E1, E3, E5, E7, B2.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::KafkaFetch;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_offsets', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
CONF
$s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');
$s->sql("SELECT fleetlog.create_stream('own', timestamp_type => 'create'), fleetlog.create_stream('log', shards => 2), fleetlog.create_stream('nothing', timestamp_type => 'create')");
my $c = FleetlogTest::KafkaFetch->connect($port);
sub ask { my ($v, @asked) = @_; return scalar $c->list_offsets($v, [@asked]); }
sub created { my ($stream, @ms) = @_; $s->sql(join '', map { "SELECT fleetlog.append('$stream', 'k', 'v', NULL, 0, to_timestamp($_ / 1000.0));" } @ms); return; }

# ---- the ends ----

is(ask(1, 'log', 0, -2), '0 0 -1', 'B2: earliest of what was just made');
is(ask(1, 'log', 0, -1), '0 0 -1', 'latest');
is(ask(7, 'log', 0, -3), '0 -1 -1 -1', 'E5: the latest time of nothing');
is(ask(7, 'nothing', 0, -3), '0 -1 -1 -1', 'E5: the latest time of nothing, where records have their own');
is(ask(1, 'nothing', 0, 0), '0 -1 -1', 'E1: no time in an empty partition');
is(ask(1, 'log', 0, 0), '0 -1 -1', 'E1: nor where the log tells times');
is(ask(1, 'log', 2, -1), '3 -1 -1', 'no such partition');
is(ask(1, 'none', 0, -1), '3 -1 -1', 'no such topic');
is(ask(6, 'log', 0, -3), '35 -1 -1 -1', 'a version that has no latest time');
is(ask(7, 'log', 0, -4), '35 -1 -1 -1', 'nor what is local');
is(ask(10, 'log', 0, -7), '35 -1 -1 -1', 'what nobody knows');
$s->sql("SELECT fleetlog.append('log', 'k', 'v', NULL, 0) FROM generate_series(1, 10)");
for my $v (1 .. 10)
{
    my $epoch = $v >= 4 ? ' 0' : '';
    is(ask($v, 'log', 0, -1), "0 10 -1$epoch", "version $v: latest");
    is(ask($v, 'log', 0, -2), "0 0 -1$epoch", "version $v: earliest");
}
is(ask(8, 'log', 0, -4), '0 0 -1 0', 'local is all there is');
is(ask(9, 'log', 0, -5), '0 -1 -1 -1', 'nothing is elsewhere');

# ---- the records' own times ----

created('own', 1005, 1009, 1007);
is(ask(7, 'own', 0, -3), '0 1 1009 0', 'E5: the latest time, which is not the last record');
is(ask(1, 'own', 0, 1006), '0 1 1009', 'by time: the first in the order of offsets');
is(ask(1, 'own', 0, 1005), '0 0 1005', 'exactly');
is(ask(1, 'own', 0, 0), '0 0 1005', 'all');
is(ask(1, 'own', 0, 1010), '0 -1 -1', 'E1: none so late');
is(ask(1, 'own', 0, 9223372036854775807), '0 -1 -1', 'E1: nor at the end of times');
$s->sql("SELECT fleetlog.append('own', 'k', 'v', NULL, 0)");
is(ask(7, 'own', 0, -3), '0 1 1009 0', 'one without a time has none');

# Times within one batch, in any order, found by the same rule as by a look at each record.
$s->sql("INSERT INTO own (shard, log_offset, ts, key, payload, created) SELECT 0, 3 + i, now(), 'k', 'some payload, the same in each', to_timestamp(2000 + (i * 7919 % 1000)) FROM generate_series(1, 1000) i");
for my $v (1, 7)
{
    my @wrong;
    for my $second (2000, 2001, map { 2000 + int rand 1000 } 1 .. 20)
    {
        my ($offset, $ms) = split / /, $s->sql("SELECT log_offset || ' ' || (extract(epoch FROM created) * 1000)::bigint FROM own WHERE created >= to_timestamp($second) ORDER BY log_offset LIMIT 1");
        my $got = ask($v, 'own', 0, $second * 1000);
        push @wrong, "$second: $got, not $offset $ms" if $got !~ /^0 $offset $ms\b/;
    }
    is("@wrong", '', "E3: version $v: the exact record inside batches of many");
}
is(ask(7, 'own', 0, -3) =~ s/^(\S+ \S+ \S+).*/$1/r, $s->sql("SELECT '0 ' || log_offset || ' ' || (extract(epoch FROM created) * 1000)::bigint FROM own WHERE created IS NOT NULL ORDER BY created DESC, log_offset LIMIT 1"),
    'the latest of them');
my $limit = $s->sql("SELECT fleetlog.trim_head('own', 0, 500, NULL)");
is(ask(1, 'own', 0, 0) =~ s/ \d+$//r, "0 $limit", 'what was trimmed is not found');
is(ask(1, 'own', 0, -2), "0 $limit -1", 'earliest is the head');

# ---- the log's times ----

my @wrong;
for my $row (split /\n/, $s->sql("SELECT log_offset || ' ' || floor(extract(epoch FROM ts) * 1000)::bigint FROM log WHERE shard = 0"))
{
    my ($offset, $ms) = split / /, $row;
    my $first = $s->sql("SELECT min(log_offset) FROM log WHERE shard = 0 AND ts >= to_timestamp($ms / 1000.0)");
    my $got = ask(1, 'log', 0, $ms);

    push @wrong, "$got, not $first $ms" if $got ne "0 $first $ms";
}
is("@wrong", '', 'each is found by its time');
my $last = $s->sql("SELECT floor(extract(epoch FROM max(ts)) * 1000)::bigint FROM log");
is(ask(1, 'log', 0, $last + 1), '0 -1 -1', 'E1: none is younger than the youngest');
like(ask(7, 'log', 0, -3), qr/^0 \d $last 0$/, 'the latest time is that of the last record');
is(ask(1, 'log', 0, 0) =~ s/ \d+$//r, '0 0', 'the first of all');

# ---- epochs ----

is($c->epoch_ends(2, [ 'log', 0, 0 ]), '0 0 10', 'the epoch in force ends at the tail');
is($c->epoch_ends(3, [ 'log', 0, 1 ]), '0 -1 -1', 'one to come is not known');
is($c->epoch_ends(4, [ 'log', 0, 0, 0 ]), '0 0 10', 'whoever knows the epoch is told');
is($c->epoch_ends(4, [ 'log', 0, 0, 1 ]), '75 -1 -1', 'whoever knows a later one is not');
is($c->epoch_ends(2, [ 'log', 7, 0 ], [ 'none', 0, 0 ]), '3 -1 -1', 'nor about what is not there');
is($c->list_offsets(4, [ 'log', 0, -1, 1 ]), '75 -1 -1 -1', 'ListOffsets looks at the epoch, too');

# A server that was restored goes on in another timeline: writes get a new epoch, and where the old one ended is told.
$s->sql("SELECT fleetlog.append('log', 'k', 'v', NULL, 1)");
my $standby = $s->new_standby('promoted', conf => "fleetlog.mqtt_listen = ''\n");
$standby->node->start;
$s->catch_up($standby);
$s->node->stop('immediate');
$standby->node->promote;
$standby->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door after the failover');
$c = FleetlogTest::KafkaFetch->connect($port);
is(ask(4, 'log', 0, -1), '0 10 -1 0', 'as long as nothing is written the epoch stays');
$standby->sql("SELECT fleetlog.append('log', 'k', 'new', NULL, 0) FROM generate_series(1, 3)");
is(ask(4, 'log', 0, -1), '0 13 -1 1', 'then there is a new one');
is(ask(4, 'log', 0, -2), '0 0 -1 0', 'and old records keep theirs');
is($c->epoch_ends(4, [ 'log', 0, 0, 1 ]), '0 0 10', 'the old epoch ends where the new one begins');
is($c->epoch_ends(4, [ 'log', 0, 1, 1 ]), '0 1 13', 'the new one at the tail');
is($c->epoch_ends(4, [ 'log', 0, 0, 0 ]), '74 -1 -1', 'who knows the old one only is fenced');
is($c->fetch_one('log', 0, 10, epoch => 0)->{error}, 74, 'also when it fetches');
is($c->fetch_one('log', 0, 10, epoch => 2)->{error}, 75, 'a later one is not known');
my @b = FleetlogTest::KafkaFetch::batches($c->fetch_one('log', 0, 0, epoch => 1)->{records});
is(join(' ', $b[0]{epoch}, $b[-1]{epoch}), '0 1', 'batches have the epoch in which they were written');
my $p = $c->fetch([ [ 'log', [ 0, 12, undef, 1, 0 ] ] ], version => 12)->{parts}{'log:0'};
is(join(' ', $p->{error}, @{ $p->{diverging} // ['-'] }, length $p->{records}), '0 0 10 0', 'who has read what is not in this log is told where histories part');
$p = $c->fetch([ [ 'log', [ 0, 10, undef, 1, 0 ] ] ], version => 12)->{parts}{'log:0'};
ok(!$p->{diverging} && length $p->{records}, 'who has not reads on');
is($standby->crashes, '', 'nothing has crashed');
done_testing();
