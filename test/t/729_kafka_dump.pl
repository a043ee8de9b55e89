# X2, L1, K2: streams that Kafka clients have written and the positions of groups by pg_dump into a new server: the same records
# with the same offsets, the same batches' compression seen by Kafka clients, groups that go on where they were; and the
# same by a standby that is promoted and by the crash of the server.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::KafkaBatch qw(batch produce record);
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

my @ports = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 3;
sub conf { my ($port) = @_; return "fleetlog.kafka_listen = '127.0.0.1:$port'\nfleetlog.allow_anonymous = on\nfleetlog.kafka_rebalance_delay = 0\nfleetlog.worker_retry = 100ms\n"; }
sub wait_for_door { my ($s) = @_; $s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the Kafka door'); return; }
my $s = FleetlogTest->new('source', conf => conf($ports[0]));
$s->sql("SELECT fleetlog.create_stream('t', shards => 2), fleetlog.create_stream('dated', timestamp_type => 'create', compression => 'none'), fleetlog.create_stream('cut')");
wait_for_door($s);

# ---- what there is ----

my $c = FleetlogTest::KafkaFetch->connect($ports[0]);
my @odd = (record("\xff\x00k", undef, headers => [ [ 'a', '1' ], [ 'a', undef ], [ 'a', '' ] ]), record('', ''), record(undef, join('', map { chr } 0 .. 255)), record('key', 'v' x 5000, time => 7));
my @refused;
for my $n (1 .. 50)
{
    push @refused, grep { $_->{error} } produce($c, 9, -1,
        [ 't', $n % 2, batch(records => [ map { record("k$_", "$n-$_") } 1 .. 20 ]) ],
        [ 'dated', 0, batch(records => \@odd, base_time => 1_700_000_000_000 + $n) ],
        [ 'cut', 0, batch(records => [ record('k', "c$n") ]) ]);
}
is(scalar(@refused), 0, 'three streams are written');
if (grep { -x "$_/kcat" } split /:/, $ENV{PATH})
{
    for my $codec (qw(gzip snappy lz4 zstd)) { my $in = join '', map { "$codec $_ " . 'x' x 100 . "\n" } 1 .. 200; IPC::Run::run([ 'kcat', '-P', '-b', "127.0.0.1:$ports[0]", '-t', 't', '-p', '1', '-z', $codec ], '<', \$in); }
}
is($s->sql("SELECT fleetlog.trim_head('cut', 0, 20, NULL)"), '20', 'a stream that has lost its front');
my $m = FleetlogTest::KafkaGroup->open($ports[0], group => 'g');
is($m->join_group, 0, 'a group');
is($m->sync({ $m->{id} => 'all' }), 0, 'of one');
is(join(',', $m->commit([ 't', 0, 123, 0, 'here' ], [ 't', 1, 45 ], [ 'cut', 0, 30 ])), '0,0,0', 'with positions');
is($s->sql("SELECT count(*) FROM fleetlog.take('sql', 'cut', max_records => 5)"), '5', 'and a consumer of SQL');

my $rows = join ' UNION ALL ', map { "SELECT '$_' AS st, count(*) AS n, md5(string_agg(r::text, '|' ORDER BY shard, log_offset)) AS h FROM (SELECT shard, log_offset, ts, created, key, key_bytes, headers, payload FROM $_) r" } qw(t dated cut);
my $positions = "SELECT string_agg(concat_ws(' ', consumer, stream, shard, log_offset, epoch, metadata), ', ' ORDER BY consumer, stream::text, shard) FROM fleetlog.consumer_position";
my $ends = "SELECT string_agg(concat_ws(' ', st, s, fleetlog.head(st::regclass, s), fleetlog.tail(st::regclass, s)), ', ' ORDER BY st, s) FROM (VALUES ('t', 0), ('t', 1), ('dated', 0), ('cut', 0)) v (st, s)";
my %was = map { $_ => $s->sql($_) } $rows, $positions, $ends;

# Every record as a Kafka client sees it.
sub seen
{
    my ($port) = @_;
    my $r = FleetlogTest::KafkaFetch->connect($port);
    my @seen;

    for my $of ([ 't', 0, 0 ], [ 'dated', 0, 0 ], [ 'cut', 0, 20 ])
    {
        my ($topic, $shard, $at) = @$of;
        my $p = $r->fetch_one($topic, $shard, $at, partition_max => 8_000_000);
        my $records = $p->{records};
        push @seen, "$topic $p->{error} $p->{start} $p->{hw}";
        for my $b (FleetlogTest::KafkaFetch::batches($records))
        {
            push @seen, map { join '|', $_->{offset}, $_->{time}, map { defined $_ ? unpack 'H*', $_ : '-' } $_->{key}, $_->{value}, map { ($_->[0], $_->[1]) } @{ $_->{headers} } } grep { $_->{offset} >= $at } @{ $b->{records} // [] };
        }
    }
    return join "\n", @seen;
}
my $kafka = seen($ports[0]);
sub kcat { my ($port, $topic, @more) = @_; my $out = ''; IPC::Run::run([ 'timeout', '60', 'kcat', '-C', '-b', "127.0.0.1:$port", '-q', '-e', '-o', 'beginning', '-f', "%p %o %T %k %S %s %h\n", '-t', $topic, @more ], '<', \'', '>', \$out); return join "\n", sort split /\n/, $out; }
my $has_kcat = grep { -x "$_/kcat" } split /:/, $ENV{PATH};
my $by_kcat = $has_kcat ? kcat($ports[0], 't') : '';

sub is_the_same
{
    my ($t, $port, $how) = @_;

    is($t->sql($rows), $was{$rows}, "$how: records");
    is($t->sql($positions), $was{$positions}, "$how: positions");
    is($t->sql($ends), $was{$ends}, "$how: heads and tails");
    wait_for_door($t);
    is(kcat($port, 't'), $by_kcat, "$how: librdkafka sees the same") if $has_kcat;
    my $g = FleetlogTest::KafkaGroup->open($port, group => 'g');
    is_deeply($g->fetch, { 't:0' => '123 0 here', 't:1' => '45 -1 ', 'cut:0' => '30 -1 ', '!' => 0 }, "$how: the group is told its positions");
    is($g->join_group, 0, "$how: it goes on");
    is($g->sync({ $g->{id} => 'all' }), 0, "$how: with an assignment");
    is(join(',', $g->commit([ 't', 0, 124, 0, 'here' ])), '0', "$how: and commits");
    is(join(',', $g->commit([ 't', 0, 123, 0, 'here' ])), '0', "$how: as its consumer wants");
    is($g->leave, 0, "$how: and leaves");
    return;
}

# ---- a crash, a dump, a standby ----

$s->kill9_and_start;
is_the_same($s, $ports[0], 'behind a crash');
is(seen($ports[0]), $kafka, 'behind a crash: each record as it was for Kafka clients');

my $t = FleetlogTest->new('restored', no_extension => 1, conf => conf($ports[1]));
my $file = $s->node->basedir . '/dump';
my $err = '';
ok(IPC::Run::run([ 'pg_dump', '-Fc', '-f', $file, '-d', $s->node->connstr('fleetlog') ], '2>', \$err), 'pg_dump') or diag($err);
ok(IPC::Run::run([ 'pg_restore', '--exit-on-error', '-d', $t->node->connstr('fleetlog'), $file ], '2>', \$err), 'pg_restore') or diag($err);
$t->wait_for_mqtt;
is_the_same($t, $ports[1], 'restored');
my $again = FleetlogTest::KafkaFetch->connect($ports[1]);
my ($next) = produce($again, 9, -1, [ 'cut', 0, batch(records => [ record('k', 'after') ]) ]);
is("$next->{error} $next->{offset}", '0 50', 'restored: offsets go on');
is($t->sql("SELECT bool_and(ok) FROM unnest('{t,dated,cut}'::regclass[]) s, fleetlog.verify(s)"), 't', 'restored: the log is sound');

my $standby = $s->new_standby('standby', conf => conf($ports[2]));
$standby->node->start;
$s->catch_up($standby);
$s->node->stop('immediate');
$standby->node->promote;
is_the_same($standby, $ports[2], 'promoted');
is(seen($ports[2]), $kafka, 'promoted: each record as it was for Kafka clients');

is($_->crashes, '', 'nothing has crashed') for $t, $standby;
done_testing();
