# The Kafka listener: closed until it is asked for, what it tells clients of itself and of streams, and what it bears of
# those who mean harm.
use strict;
use warnings;
use lib 't', 'test/t';
use FleetlogTest;
use FleetlogTest::Kafka;
use PostgreSQL::Test::Utils;
use Test::More;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_listener');

is($s->sql('SHOW fleetlog.kafka_listen'), '', 'closed by default');
is($s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'front_door'"), '2', 'and no process waits for it');
$s->sql("SELECT fleetlog.create_stream('readings', shards => 4)");
$s->sql('CREATE SCHEMA a; CREATE SCHEMA b');
$s->sql("SELECT fleetlog.create_stream('a.twice'), fleetlog.create_stream('b.twice')");
$s->sql(q{SELECT fleetlog.create_stream('"not for kafka"')});
my %conf = ('fleetlog.kafka_listen' => "127.0.0.1:$port");
$s->set_conf(%conf);
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'a reload that opens it');

# Nobody may do anything without logging in.
my $c = FleetlogTest::Kafka->connect($port);
my $id = $c->request(18, 0, '');
my ($got, $answer) = $c->answer;
is($got, $id, 'versions are told to everybody');
is(unpack('n', $answer), 0, 'without an error');
$c->request(3, 1, pack('N', 0xFFFFFFFF));
ok($c->is_closed, 'metadata only to who may see it');

# Memory: a thousand connections announce 100 MB each, and send some bytes of it.
my $memory = "SELECT memory FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 2";
my @crowd = map { FleetlogTest::Kafka->connect($port) } 1 .. 1000;
$_->send_raw(pack('N', 100 * 1024 * 1024) . 'x' x 1000) for @crowd;
is(scalar(grep { !$_->is_closed } @crowd), 0, 'each is closed at once');
cmp_ok($s->sql($memory), '<', 8 * 1024 * 1024, 'and has cost no memory');
@crowd = ();

$s->set_conf(%conf = (%conf, 'fleetlog.allow_anonymous' => 'on'));

# The door takes the setting in its own time: what it refused it now serves.
sub metadata
{
    my ($version, $body, %opt) = @_;
    my @answer;

    FleetlogTest::wait_until(
        sub {
            my $c = FleetlogTest::Kafka->connect($port);

            $c->request(3, $version, $body, %opt);
            @answer = $c->answer;
            return @answer > 0;
        },
        'an answer');
    return $answer[1];
}
my $all = metadata(1, pack('N', 0xFFFFFFFF));
like($all, qr/readings/, 'streams are topics');
like($all, qr/a\.twice.*b\.twice/s, 'with their schemas where the name alone is not enough');
unlike($all, qr/not for kafka/, 'names that Kafka does not allow are left out');
like($all, qr/127\.0\.0\.1\x00\x00/, 'the address is the one that the client came to');
# As librdkafka 2.16 asks: null topics, two flags and no tags, and three bytes that belong to nothing.
like(metadata(12, "\0\0\0\0\1\0\0", flexible => 1), qr/readings/, 'bytes behind a request are left alone');
my $unknown = metadata(1, pack('N n/a*', 1, 'nothere'));
like($unknown, qr/\x00\x03\x00\x07nothere/, 'unknown topic: 3');
like(metadata(1, pack('N n/a*', 1, 'no/topic')), qr{\x00\x11\x00\x08no/topic}, 'illegal name: 17');

$c = FleetlogTest::Kafka->connect($port);
$id = $c->request(18, 99, "\1\1\0", flexible => 1);
($got, $answer) = $c->answer;
is(unpack('n', $answer), 35, 'versions of the future: unsupported, in version 0');
$id = $c->request(18, 3, "\5test\4" . '1.0' . "\0", flexible => 1);
($got, $answer) = $c->answer;
is(join(' ', $got, unpack('n', $answer)), "$id 0", 'and the connection goes on');
$id = $c->request(18, 3, "\1\1\0", flexible => 1);
is(unpack('n', ($c->answer)[1]), 42, 'a client without a name: invalid request');
my @ids = map { $c->request(3, 1, pack('N', 0)) } 1 .. 50;
is(join(' ', map { ($c->answer)[0] } @ids), join(' ', @ids), 'answers in the order of requests');

# Counts of 2^31 and more, in the fixed and in the compact form; cut requests.
for my $body (pack('N', 0x7FFFFFFF), pack('N', 0x80000000), pack('N n', 1, 0x7FFF))
{
    $c = FleetlogTest::Kafka->connect($port);
    $c->request(3, 1, $body);
    ok($c->is_closed, 'a count that cannot be is the end: ' . unpack('H*', $body));
}
$c = FleetlogTest::Kafka->connect($port);
$c->request(3, 9, "\xFF\xFF\xFF\xFF\x0F", flexible => 1);
ok($c->is_closed, 'also in the compact form');
$c = FleetlogTest::Kafka->connect($port);
$c->request(999, 0, '');
ok($c->is_closed, 'a request that is not served closes');
$c = FleetlogTest::Kafka->connect($port);
$c->send_raw(pack('N', 0xFFFFFFFF));
ok($c->is_closed, 'a negative length closes');

$s->set_conf(%conf, 'fleetlog.kafka_advertised' => "broker.example:19092");
ok(is_told(qr/broker\.example/), 'an address that is set is told instead');
$s->set_conf(%conf, 'fleetlog.kafka_advertised' => "elsewhere:1,$port=[::1]:19093");
ok(is_told(qr/::1\x00\x00\x4A\x95/), 'and one for this listener before it');

sub is_told
{
    my ($re) = @_;

    FleetlogTest::wait_until(sub { metadata(1, pack('N', 0)) =~ $re }, "metadata with $re");
    return 1;
}

SKIP:
{
    skip 'kcat is not here', 1 unless grep { -x "$_/kcat" } split /:/, $ENV{PATH};
    $s->set_conf(%conf, 'fleetlog.kafka_advertised' => '');
    is_told(qr/\Q127.0.0.1\E/);
    my ($out) = run_command(['kcat', '-L', '-b', "127.0.0.1:$port", '-t', 'readings', '-m', '60']);

    like($out, qr/topic "readings" with 4 partitions/, 'kcat sees it');
}
is($s->crashes, '', 'nothing has crashed');
done_testing();
