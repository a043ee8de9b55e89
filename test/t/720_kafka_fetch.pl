# K2, K5, L5, L6, L8: what Kafka clients read: records of every origin byte for byte, from every place, as soon as they are
# durable and never before; limits, errors, trims, long polls; positions of groups.  Cases A2, B2, D1, D3, D4, D6, E1, E3, E5, I1, I3.
use strict;
use warnings;
use Test::More;
use PostgreSQL::Test::Utils;
use FleetlogTest;
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_fetch', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 0
fleetlog.worker_retry = 100ms
max_locks_per_transaction = 256
CONF
$s->set_conf;
sub wait_for_door { $s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door'); return; }
wait_for_door();
sub client { return FleetlogTest::KafkaFetch->connect($port); }
sub batches { return FleetlogTest::KafkaFetch::batches($_[0]{records}); }
sub records { return map { @{ $_->{records} } } batches($_[0]); }
sub values_of { return join ' ', map { $_->{value} // 'NULL' } records($_[0]); }

# Everything that kcat says of a topic from a place on, in this format.
sub kcat
{
    my ($format, @args) = @_;
    my ($out, $err) = run_command([ 'timeout', '120', 'kcat', '-C', '-b', "127.0.0.1:$port", '-q', '-e', '-f', $format, @args ]);

    note($err) if $err ne '';
    return $out;
}

# librdkafka 2.0 fetches in today's format only from a broker that takes batches in it, too.
my $probe = client();
my $versions;
$probe->request(18, 0, '');
(undef, $versions) = $probe->answer;
my %served = map { (unpack 's> s> s>', substr $versions, 6 + 6 * $_, 6)[0] => 1 } 0 .. unpack('x2 N', $versions) - 1;
my $librdkafka = $served{0} && grep { -x "$_/kcat" } split /:/, $ENV{PATH};

# What kcat says, as the checks of single requests say it.
sub kcat_says
{
    my ($got, $expected, $name) = @_;

  SKIP:
    {
        skip 'Produce is not served, or kcat not here', 1 unless $librdkafka;
        is($got->(), ref $expected ? $expected->() : $expected, $name);
    }
    return;
}

# ---- origins ----

$s->sql(<<'SQL');
SELECT fleetlog.create_stream('plain', compression => 'none', timestamp_type => 'create');
SELECT fleetlog.create_stream('packed');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.create_stream('devices', compression => 'none');
SELECT fleetlog.mount('acme/', 'devices');
SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1');
SQL
my $c = client();
my $p = $c->fetch_one('plain', 0, 0);
is(join(' ', @$p{qw(error hw lso start replica null)}), '0 0 0 0 -1 ', 'B2, D1: a stream that was just made: empty, and not null');

my $all_bytes = join '', map { chr } 0 .. 255;
my $hex = unpack 'H*', $all_bytes;
$s->sql(<<"SQL");
SELECT fleetlog.append('plain', 'k1', '\\x$hex', '[["a","1"],["a","2"],["none",null],["empty",""],["b",{"base64":"/wA="}]]', NULL, '2024-01-02 03:04:05.678+00');
SELECT fleetlog.append('plain', NULL, NULL);
SELECT fleetlog.append('plain', '', '');
INSERT INTO plain (shard, log_offset, ts, key_bytes, payload, created) VALUES (0, 3, now(), '\\xfffe00', 'v', '2024-01-02 03:04:05+00');
SQL
my @r = records($c->fetch_one('plain', 0, 0));
is(scalar(@r), 4, 'four records');
is(join(' ', map { $_->{offset} } @r), '0 1 2 3', 'offsets');
is($r[0]{value}, $all_bytes, 'a payload of all bytes');
is($r[0]{key}, 'k1', 'a key');
is($r[0]{time}, 1704164645678, 'its own time');
my @own = grep { $_->[0] !~ /^fl\./ } @{ $r[0]{headers} };
is(join(' ', map { "$_->[0]=" . (defined $_->[1] ? unpack 'H*', $_->[1] : 'NULL') } @own), 'a=31 a=32 none=NULL empty= b=ff00', 'headers: repeated, without a value, empty, of bytes');
ok(!defined $r[1]{key} && !defined $r[1]{value}, 'no key, no payload');
is($r[1]{time}, -1, 'no time of its own');
ok(defined $r[2]{key} && $r[2]{key} eq '' && $r[2]{value} eq '', 'an empty key and an empty payload');
is(unpack('H*', $r[3]{key}), 'fffe00', 'a key that is no UTF-8');
kcat_says(sub { kcat('%o %k %S|', '-t', 'plain', '-o', 'beginning') =~ s/\xff\xfe\x00/BYTES/r }, '0 k1 256|1  -1|2  0|3 BYTES 1|', 'kcat sees the same');
kcat_says(sub { kcat('%h %T|', '-t', 'plain', '-o', '0', '-c', '1') =~ s/fl\.[^ }, ]*,//gr }, "a=1,a=2,none=NULL,empty=,b=\xff 1704164645678|", 'headers and time');

my $device = $s->device('d1');
is($device->publish_acked('acme/d1/temp', $all_bytes, properties => [ [ 38, 'unit', 'C' ], [ 38, 'unit', 'K' ] ]), 0, 'a device publishes');
is($device->publish_acked('acme/d1/empty', ''), 0, 'nothing, too');
$s->sql(q{SELECT fleetlog.publish('acme/d1/sql', '\x00ff')});
@r = map { records($c->fetch_one('devices', $_, 0)) } 0;
is(join(' ', map { $_->{key} } @r), 'acme/d1/temp acme/d1/empty acme/d1/sql', 'keys are topics');
is($r[0]{value}, $all_bytes, 'the payload of a device');
is($r[1]{value}, '', 'an empty one');
is(unpack('H*', $r[2]{value}), '00ff', 'one of publish()');
is(join(' ', map { "$_->[0]=$_->[1]" } grep { $_->[0] =~ /^(?:fl\.(?:tenant|device)|unit)$/ } @{ $r[0]{headers} }), 'fl.tenant=acme fl.device=d1 unit=C unit=K', 'who sent it, and what it said besides');
my ($batch) = batches($c->fetch_one('devices', 0, 0));
is($batch->{max_time}, $s->sql('SELECT floor(extract(epoch FROM min(ts)) * 1000)::bigint FROM devices'), 'C10: the time of the log is that of the row');
ok($batch->{attributes} & 8, 'and is told as such');

# Batches that were compressed when they were stored: read by a client of others, compared with what SQL sees.
$s->sql("INSERT INTO packed (shard, log_offset, ts, key, payload, headers) SELECT 0, i, now(), 'k' || i, convert_to(repeat('text ', i % 40), 'UTF8'), fleetlog.headers(jsonb_build_object('n', i::text)) FROM generate_series(0, 2999) i");
kcat_says(sub { kcat("%o %k %s %S\n", '-t', 'packed', '-o', 'beginning') =~ s/\s+\z//r }, $s->sql("SELECT string_agg(format(E'%s %s %s %s\n', log_offset, key, fleetlog.text(payload), length(payload)), '' ORDER BY log_offset) FROM packed") =~ s/\s+\z//r, 'compressed records');

# ---- places ----

kcat_says(sub { kcat('%o ', '-t', 'packed', '-o', '2990') }, join('', map { "$_ " } 2990 .. 2999), 'from an offset in the middle of a batch');
kcat_says(sub { kcat('%o ', '-t', 'packed', '-o', '-3') }, '2997 2998 2999 ', 'the last three');
kcat_says(sub { kcat('%o ', '-t', 'packed', '-o', 'end') }, '', 'from the end');
kcat_says(sub { kcat('%o ', '-t', 'plain', '-o', 's@1704164645600', '-c', '1') }, '0 ', 'from a time');
kcat_says(sub { kcat('%o', '-t', 'packed', '-o', 's@' . int(1000 * time - 3600_000), '-c', '1') }, '0', 'from a time of the log');

# ---- versions ----

my %id = map { $_ => $c->topic_id($_) } qw(plain packed);
for my $v (4 .. 17)
{
    my $name = $v >= 13 ? $id{plain} : 'plain';
    $p = $c->fetch_one($name, 0, 0, version => $v, isolation => $v % 2);
    is(join(' ', $p->{error}, $p->{hw}, $p->{lso}, scalar(records($p))), '0 4 4 4', "A2: version $v");
    cmp_ok($p->{aborted}, '<=', 0, "version $v: aborted transactions: none, or not asked for");
}

# ---- what is wrong ----

is($c->fetch_one('plain', 0, 5)->{error}, 1, 'beyond the tail');
$p = $c->fetch_one('plain', 0, -1);
is(join(' ', @$p{qw(error hw start)}), '1 4 0', 'before the beginning, with what there is');
is($c->fetch_one('plain', 0, 4)->{error}, 0, 'at the tail there is nothing, and nothing wrong');
my $answer = $c->fetch([ [ 'nothing', [ 0, 0 ] ], [ 'plain', [ 0, 0 ], [ 1, 0 ], [ -1, 0 ] ] ]);
is(join(' ', map { "$_=$answer->{parts}{$_}{error}" } @{ $answer->{order} }), 'nothing:0=3 plain:0=0 plain:1=3 plain:-1=3', 'each partition has its own error');
ok(length $answer->{parts}{'plain:0'}{records}, 'and the others their records');
is($c->fetch_one("\1" x 16, 0, 0, version => 13)->{error}, 100, 'an id that nobody has');
is($c->fetch_one('plain', 0, 0, epoch => 7)->{error}, 75, 'an epoch that is to come');
is($c->fetch([ [ 'plain', [ 0, 0 ] ] ], session => [ 0, 0 ])->{session}, 0, 'no session is begun');
is($c->fetch([ [ 'plain', [ 0, 0 ] ] ], session => [ 77, 3 ])->{error}, 70, 'and none is known');
is($c->fetch([])->{error}, 0, 'nobody is told that nothing was asked for');
my $greedy = client();
$greedy->send_fetch([ [ 'plain', map { [ 0, 0 ] } 1 .. 2000 ] ]);
ok($greedy->is_closed, 'more partitions than there are end the connection');
$s->sql("SELECT fleetlog.create_stream('z', compression => 'zstd'); INSERT INTO z (shard, log_offset, ts, key, payload) SELECT 0, i, now(), 'k', convert_to(repeat('z', 300), 'UTF8') FROM generate_series(0, 99) i");
is($c->fetch_one('z', 0, 0, version => 9)->{error}, 76, 'a client too old for zstd is told so');
is((batches($c->fetch_one('z', 0, 0, version => 10)))[0]{codec}, 4, 'others get it');

# ---- limits ----

is($s->crashes, '', 'nothing has crashed');
done_testing();
