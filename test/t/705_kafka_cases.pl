# K1, K2, K5: public bug reports of other brokers that speak Kafka's protocol, where no test of a feature shows them right:
# versions, what Metadata tells, times, codecs, static members, large assignments, writes that fail.  docs/cases-kafka.md has
# all of them.  Cases A1, A3, A5, A6, A7, B1, B2, C8, C9, C12, D1, F1, I7, I11, I14.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch produce record);
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

my ($port, $other_port) = map { PostgreSQL::Test::Cluster::get_free_port() } 1, 2;
my $s = FleetlogTest->new('kafka_cases', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port,127.0.0.1:$other_port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 0
fleetlog.kafka_session_timeout_min = 100ms
fleetlog.worker_retry = 100ms
CONF
$s->sql(<<'SQL');
CREATE ROLE boss LOGIN PASSWORD 'pw-boss' IN ROLE fleetlog_admin;
GRANT CREATE ON SCHEMA public TO boss;
SELECT fleetlog.create_stream('t', shards => 4);
SQL
sub wait_for_door { $s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '2', 'the Kafka door'); return; }
wait_for_door();
sub client { return FleetlogTest::KafkaFetch->connect($_[0] // $port); }
sub reader { return FleetlogTest::KafkaGroup::Reader->new($_[0]); }
sub str { return pack('n/a*', $_[0]); }
# Compact strings and arrays of flexible versions.
sub cstr { return FleetlogTest::KafkaFetch::string($_[0], 1); }
sub carray { return FleetlogTest::KafkaFetch::array(1, @_); }
my $kcat = grep { -x "$_/kcat" } split /:/, $ENV{PATH};
sub kcat { my ($in, @args) = @_; my ($out, $err) = ('', ''); IPC::Run::run([ 'timeout', '120', 'kcat', '-b', "127.0.0.1:$port", @args ], '<', \$in, '>', \$out, '2>', \$err); return ($out, $err); }

# ---- versions ----

my $c = client();
for my $version (0 .. 5, 99)
{
    my $body = $version >= 3 ? cstr('test') . cstr('1.0') . "\0" : '';
    my $id = $c->request(18, $version, $body, flexible => $version >= 3);
    my ($got, $answer) = $c->answer;

    is("$got " . unpack('n', $answer), "$id " . ($version <= 4 ? 0 : 35), "A3: ApiVersions $version is answered");
    $id = $c->request(3, 1, pack('N', 0));
    is(($c->answer)[0], $id, "A3: ... and Metadata behind it on the same socket");
}
$c->request(18, 3, cstr('test') . cstr('1.0') . "\0", flexible => 1);
my (undef, $in) = $c->answer;
my $error = FleetlogTest::KafkaFetch::i16(\$in);
my %range;
for (1 .. FleetlogTest::KafkaFetch::take_uvarint(\$in) - 1) { my ($key, $from, $to) = map { FleetlogTest::KafkaFetch::i16(\$in) } 1 .. 3; $range{$key} = [ $from, $to ]; FleetlogTest::KafkaFetch::take_tags(\$in, 1); }
FleetlogTest::KafkaFetch::i32(\$in);
FleetlogTest::KafkaFetch::take_tags(\$in, 1);
is("$error " . length($in), '0 0', 'A5: ApiVersions 3 has a compact body with tags, a header without them, and nothing behind');
cmp_ok(scalar(keys %range), '>', 30, 'A5: and tells all requests');

# A6: a client of the level of Kafka 2.8, each request in the version of that time.
$c = client();
$c->request(3, 10, carray("\0" x 16 . cstr('t') . "\0") . "\0\0\0\0", flexible => 1);
like(($c->answer)[1], qr/\x02t.{16}/s, 'A6: Metadata 10');
my ($r) = produce($c, 9, -1, [ 't', 0, batch(records => [ record('k', 'v') ]) ]);
is("$r->{error} $r->{offset}", '0 0', 'A6: Produce 9');
is($c->fetch_one('t', 0, 0, version => 12)->{error}, 0, 'A6: Fetch 12');
is($c->list_offsets(6, [ 't', 0, -1 ]), '0 1 -1 0', 'A6: ListOffsets 6');
sub join_7 { my ($id) = @_; $c->request(11, 7, cstr('old') . pack('N N', 10000, 10000) . cstr($id) . "\0" . cstr('consumer') . carray(cstr('range') . cstr('meta') . "\0") . "\0", flexible => 1); return ($c->answer)[1]; }
my $joined = join_7('');
is(unpack('x5 n', $joined), 79, 'A6: JoinGroup 7: an id to come again with');
my ($member) = $joined =~ /(test-[0-9a-f-]+)/;
is(unpack('x5 n N', join_7($member)), 0, 'A6: ... and it is in');
$c->request(8, 8, cstr('alone') . pack('N', 0xFFFFFFFF) . cstr('') . "\0" . carray(cstr('t') . carray(pack('N q> N', 0, 1, 0) . "\1\0") . "\0") . "\0", flexible => 1);
like(($c->answer)[1], qr/\x02t\x02\x00{4}\x00\x00\x00\x00\x00$/, 'A6: OffsetCommit 8');

# ---- what Metadata tells ----

$s->set_conf('fleetlog.kafka_advertised' => "$port=one.example:1111,$other_port=two.example:2222");
for my $at ([ $port, 'one.example', 1111 ], [ $other_port, 'two.example', 2222 ])
{
    my ($where, $host, $advertised) = @$at;
    my ($brokers, %named);

    FleetlogTest::wait_until(
        sub {
            my $a = client($where);

            $a->request(3, 1, pack('N', 0xFFFFFFFF));
            my $m = reader(($a->answer)[1]);
            $brokers = join ' ', map { my $id = $m->i32; my $name = $m->str; my $p = $m->i32; $m->str; "$id=$name:$p" } 1 .. $m->i32;
            %named = ($m->i32 => 1);
            for (1 .. $m->i32) { $m->i16; $m->str; $m->i8; for (1 .. $m->i32) { $m->i16; $m->i32; $named{ $m->i32 } = 1; for (1, 2) { $named{ $m->i32 } = 1 for 1 .. $m->i32; } } }
            return $m->rest == 0 && $brokers =~ /example/;
        },
        'the advertised address');
    is($brokers, "1=$host:$advertised", 'B1: each listener tells its own address');
    is(join(' ', keys %named), '1', 'B1: leaders, replicas and controller are among the brokers');
    my $a = client($where);
    $a->request(10, 2, str('g') . "\0");
    my $f = reader(($a->answer)[1]);
    $f->i32; $f->i16; $f->str;
    is(join(' ', $f->i32, $f->str, $f->i32), "1 $host $advertised", 'B1: so is the coordinator');
}
$s->set_conf;
FleetlogTest::wait_until(sub { my $a = client(); $a->request(3, 1, pack('N', 0)); ($a->answer)[1] =~ /127\.0\.0\.1/ }, 'the address to be that of the connection');

# A topic can be used as soon as there is one.
my $boss = client();
is(($boss->log_in('boss', 'pw-boss'))[0], 0, 'an administrator');
my @late;
for my $n (1 .. 20)
{
    $boss->request(19, 4, pack('N', 1) . str("made$n") . pack('N n N N', 2, 1, 0, 0) . pack('N c', 20000, 0));
    push @late, "$n: not made" if unpack('x4 N n/a* n', ($boss->answer)[1]) != 1;
    my ($written) = produce($boss, 9, -1, [ "made$n", 1, batch(records => [ record('k', 'v') ]) ]);
    my $at = $boss->list_offsets(1, [ "made$n", 1, -1 ]);
    my $p = $boss->fetch_one("made$n", 1, 0);
    push @late, "$n: $written->{error} $at $p->{error}" if "$written->{error} $at $p->{error} $p->{hw}" ne '0 0 1 -1 0 1';
}
is("@late", '', 'B2: what CreateTopics has made is written and read at the first try');
$s->set_conf('fleetlog.kafka_auto_create_topics' => 'on');
FleetlogTest::wait_until(sub { $boss->request(3, 1, pack('N', 1) . str('auto')); ($boss->answer)[1] =~ /\x00\x00\x00\x04auto/ }, 'a topic that is made when asked for');
$boss->request(3, 1, pack('N', 1) . str('auto2'));
like(($boss->answer)[1], qr/\x00\x00\x00\x05auto2/, 'B2: a topic that is made by Metadata');
is((produce($boss, 9, -1, [ 'auto2', 0, batch(records => [ record('k', 'v') ]) ]))[0]{error}, 0, 'B2: ... takes a record at the first try');
$s->set_conf;

my $id = client()->topic_id('t');
isnt($id, "\0" x 16, 'A7: a topic has an id');
$s->node->restart;
wait_for_door();
is(client()->topic_id('t'), $id, 'A7: the same behind a restart');

# ---- what is written ----

$c = client();
for my $version (3, 9)
{
    ($r) = produce($c, $version, -1, [ 't', 1, batch(records => [ record('k', "v$version", time => 5) ]) ]);
    my ($b) = FleetlogTest::KafkaFetch::batches($c->fetch_one('t', 1, $r->{offset})->{records});
    cmp_ok($r->{time}, '>', 0, "C9: Produce $version tells the append time");
    is("$b->{max_time} " . ($b->{attributes} & 8), "$r->{time} 8", 'C9: which is that of the records that are read');
}
$s->sql("SELECT fleetlog.create_stream('dated', timestamp_type => 'create'), fleetlog.create_stream('compacted', cleanup_policy => 'compact')");
my $day = 1_700_000_000_000;
FleetlogTest::wait_until(sub { (produce($c, 9, -1, [ 'dated', 0, batch(records => [ record('t', '1', time => 5), record('t', '2', time => 9) ], base_time => $day, max_time => -1) ]))[0]{error} == 0 }, 'the new stream');
is($c->list_offsets(1, [ 'dated', 0, $day + 6 ]), '0 1 ' . ($day + 9), 'C8: what came without a max timestamp is found by its time');
is($c->list_offsets(1, [ 'dated', 0, $day + 10 ]), '0 -1 -1', 'C8: and nothing behind it');
my ($b) = FleetlogTest::KafkaFetch::batches($c->fetch_one('dated', 0, 0)->{records});
is($b->{max_time}, $day + 9, 'C8: it is read with the right one and a right checksum');
($r) = produce($c, 8, -1, [ 'compacted', 0, batch(records => [ record('a', '1'), record(undef, '2'), record('c', '3') ]) ]);
is("$r->{error} $r->{record}", '87 1', 'C12: a record without a key in a compacted topic: 87, and which it is');
is($s->sql('SELECT count(*) FROM compacted'), '0', 'C12: nothing of the batch is stored');

SKIP:
{
    skip 'kcat is not here', 1 unless $kcat;
    my %codec = (none => 0, gzip => 1, snappy => 2, lz4 => 3, zstd => 4);
    for my $name (sort keys %codec)
    {
        kcat(('x' x 1000) . "\n", '-P', '-t', 't', '-p', '2', '-z', $name) if $name ne 'zstd' || $range{0}[1] >= 7;
        my ($last) = reverse FleetlogTest::KafkaFetch::batches($c->fetch_one('t', 2, 0)->{records});
        is($last->{codec}, $codec{$name}, "A1: a batch that kcat compresses with $name is stored as such");
    }
    my ($out, $err) = kcat('', '-C', '-t', 't', '-o', 'beginning', '-e', '-q', '-f', "%p:%o\n", '-X', 'debug=protocol,msg');
    is($out =~ tr/\n//, 8, 'D1: an empty partition beside full ones: all is read');
    unlike($err, qr/MessageSetSize|PROTOERR|ERROR/, 'D1: and librdkafka complains of nothing');

    # Static members: one is killed and started again within its session.
    my @run;
    my $start = sub { my ($instance) = @_; my $h = { out => '' }; $h->{run} = IPC::Run::start([ 'kcat', '-b', "127.0.0.1:$port", '-q', '-G', 'static', '-X', "group.instance.id=$instance", '-X', 'session.timeout.ms=60000', 't' ], '<', \'', '>', \$h->{out}, '2>', '/dev/null'); return $h; };
    my $assigned = "SELECT string_agg(concat_ws('=', instance_id, assignment), ' ' ORDER BY instance_id) || ' ' || max(generation) FROM fleetlog.stat_group_member WHERE name = 'static'";
    @run = map { $start->($_) } qw(a b);
    $s->wait_for("SELECT count(*) = 2 AND bool_and(assignment::text <> '{}') AND (SELECT min(state) FROM fleetlog.stat_group WHERE name = 'static') = 'Stable' FROM fleetlog.stat_group_member WHERE name = 'static'", 't', 'two static members');
    my $before = $s->sql($assigned);
    my $ids = $s->sql("SELECT member_id FROM fleetlog.stat_group_member WHERE name = 'static' AND instance_id = 'a'");
    $run[0]{run}->kill_kill(grace => 0);
    $run[0] = $start->('a');
    $s->wait_for("SELECT member_id <> '$ids' FROM fleetlog.stat_group_member WHERE name = 'static' AND instance_id = 'a'", 't', 'the first one to be back');
    is($s->sql($assigned), $before, 'F1: a static member that comes back has what it had, in the same generation');
    $_->{run}->kill_kill(grace => 0) for @run;
}

# I11: what is small and inflates to a gigabyte.
SKIP:
{
    skip 'zstd is not here', 3 unless grep { -x "$_/zstd" } split /:/, $ENV{PATH};
    my $door = $s->sql("SELECT min(pid) FROM fleetlog.stat_listener WHERE protocol = 'kafka'");
    my $resident = sub { return PostgreSQL::Test::Utils::slurp_file("/proc/$door/status") =~ /^RssAnon:\s+(\d+)/m ? $1 : die };
    my $bomb = `head -c 1G /dev/zero | zstd -1 -q -c`;
    my $had = $resident->();
    is((produce($c, 9, -1, [ 't', 2, batch(raw => $bomb, count => 1, attributes => 4) ]))[0]{error}, 10, 'I11: ' . length($bomb) . ' bytes of zstd that are a gigabyte: 10') for 1 .. 3;
    cmp_ok($resident->() - $had, '<', 65536, 'I11: and little memory: ' . ($resident->() - $had) . ' kB');
}

# ---- a large assignment ----

my $m = FleetlogTest::KafkaGroup->open($port, group => 'large');
my $large = join '', map { chr int rand 256 } 1 .. 300_000;
is($m->join_group, 0, 'a member');
is($m->sync({ $m->{id} => $large }), 0, 'an assignment of 300 kB');
ok($m->{assignment} eq $large, 'I7: it comes back byte for byte');

# ---- writes that fail ----

$s->set_conf('fleetlog.disk_reserve' => '2000TB');
my $accepted = -1;
FleetlogTest::wait_until(sub { $accepted++; $r = (produce($c, 9, -1, [ 't', 3, batch(records => [ record('k', 'full') ]) ]))[0]; $r->{error} }, 'the disk reserve to be reached');
is($r->{error}, 56, 'I14: no room on the disk: 56, which clients repeat');
is($c->fetch_one('t', 1, 0)->{error}, 0, 'I14: others read meanwhile');
$s->set_conf('fleetlog.shard_lock_timeout' => '200ms');
FleetlogTest::wait_until(sub { (produce($c, 9, -1, [ 't', 3, batch(records => [ record('k', 'fits') ]) ]))[0]{error} == 0 }, 'the disk to have room');
my $holder = $s->session;
$holder->query("BEGIN; SELECT fleetlog.append('t', 'k', 'holds the shard', NULL, 3)");
my ($held) = produce($c, 9, -1, [ 't', 3, batch(records => [ record('k', 'late') ]) ], timeout => 1500);
is($held->{error}, 7, 'I14: a shard that is held: 7 when the time is up that the client gave');
is((produce($c, 9, -1, [ 't', 0, batch(records => [ record('k', 'else') ]) ]))[0]{error}, 0, 'I14: another shard is written meanwhile');
$holder->query('ROLLBACK');
$holder->quit;
FleetlogTest::wait_until(sub { (produce($c, 9, -1, [ 't', 3, batch(records => [ record('k', 'after') ]) ]))[0]{error} == 0 }, 'the shard to take records again');
is($s->sql("SELECT count(*) FROM t WHERE fleetlog.text(payload) IN ('full', 'holds the shard')"), $accepted, 'I14: what was refused is not there');
is($s->density_faults('t'), '', 'and offsets have no hole');

is($s->crashes, '', 'nothing has crashed');
done_testing();
