# K1, K2, L8: Kafka's clients as administrators: topics made, changed, given partitions, deleted; records deleted at the front;
# configurations; with the rights that the SQL functions ask for, each error as Kafka gives it.  Cases A7, B3, B4, B8, B9, B10.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Kafka;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_admin', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.worker_retry = 100ms
CONF
$s->fleet(devices => 1);
$s->sql(<<'SQL');
CREATE ROLE boss LOGIN PASSWORD 'pw-boss' IN ROLE fleetlog_admin;
CREATE ROLE other LOGIN PASSWORD 'pw-other' IN ROLE fleetlog_admin;
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
GRANT CREATE ON SCHEMA public TO boss, other;
SELECT fleetlog.create_stream('theirs', shards => 2);
GRANT SELECT, INSERT ON theirs TO boss, dash;
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the listener');

# ---- requests by hand ----

sub str { my ($text) = @_; return defined $text ? pack('n/a*', $text) : pack('n', 0xFFFF); }
sub array { return pack('N', scalar @_) . join '', @_; }
sub client
{
    my ($user, $password) = @_;
    my $c = FleetlogTest::Kafka->connect($port);

    is(($c->log_in($user, $password))[0], 0, "$user logs in") if defined $user;
    return $c;
}
sub ask { my ($c, $key, $version, $body) = @_; $c->request($key, $version, $body); my ($id, $answer) = $c->answer; die "closed" unless defined $answer; return { in => $answer, at => 0 }; }
sub get { my ($r, $format, $size) = @_; my ($v) = unpack $format, substr $r->{in}, $r->{at}, $size; $r->{at} += $size; return $v; }
sub i8 { return get($_[0], 'c', 1); }
sub i16 { return get($_[0], 's>', 2); }
sub i32 { return get($_[0], 'l>', 4); }
sub i64 { return get($_[0], 'q>', 8); }
sub text { my ($r) = @_; my $n = i16($r); return $n < 0 ? undef : get($r, "a$n", $n); }

# name => error of each, with messages kept in %why.
my %why;
sub results { my ($r) = @_; i32($r); my %e; for (1 .. i32($r)) { my $name = text($r); $e{$name} = i16($r); $why{$name} = text($r); } return \%e; }
sub topic { my ($name, $partitions, $replicas, %configs) = @_; return str($name) . pack('N n N', $partitions & 0xFFFFFFFF, $replicas & 0xFFFF, 0) . array(map { str($_) . str($configs{$_}) } sort keys %configs); }
sub create { my ($c, $validate, @topics) = @_; return results(ask($c, 19, 4, array(@topics) . pack('N c', 20000, $validate))); }
sub partitions { my ($c, $validate, %count) = @_; return results(ask($c, 37, 1, array(map { str($_) . pack('N N', $count{$_}, 0xFFFFFFFF) } sort keys %count) . pack('N c', 20000, $validate))); }
sub delete_topics { my ($c, $timeout, @names) = @_; my $r = ask($c, 20, 3, array(map { str($_) } @names) . pack('N', $timeout)); i32($r); my %e; for (1 .. i32($r)) { my $name = text($r); $e{$name} = i16($r); } return \%e; }
sub records
{
    my ($c, $name, %offset) = @_;
    my $r = ask($c, 21, 1, array(str($name) . array(map { pack('N q>', $_, $offset{$_}) } sort keys %offset)) . pack('N', 5000));
    my %e;

    i32($r); i32($r); text($r);
    for (1 .. i32($r)) { my ($p, $low, $error) = (i32($r), i64($r), i16($r)); $e{$p} = "$error $low"; }
    return \%e;
}
my %source;
sub configs
{
    my ($c, $type, $name, @keys) = @_;
    my $r = ask($c, 32, 1, array(pack('c', $type) . str($name) . (@keys ? array(map { str($_) } @keys) : pack('N', 0xFFFFFFFF))) . "\0");
    i32($r); i32($r);
    my $error = i16($r); text($r); i8($r); text($r);
    my %v = ('!' => $error);

    for (1 .. i32($r)) { my $key = text($r); $v{$key} = text($r); i8($r); $source{$key} = i8($r); i8($r); for (1 .. i32($r)) { text($r); text($r); i8($r); } }
    return \%v;
}
sub altered { my ($r) = @_; i32($r); i32($r); my $error = i16($r); $why{alter} = text($r); return $error; }
sub alter { my ($c, $name, %v) = @_; return altered(ask($c, 33, 1, array("\2" . str($name) . array(map { str($_) . str($v{$_}) } sort keys %v)) . "\0")); }
sub change { my ($c, $validate, $name, @ops) = @_; return altered(ask($c, 44, 0, array("\2" . str($name) . array(map { str($_->[0]) . pack('c', $_->[1]) . str($_->[2]) } @ops)) . pack('c', $validate))); }

# ---- making topics ----

my $boss = client('boss', 'pw-boss');
is_deeply(create($boss, 0, topic('made', 4, 1, 'retention.ms' => 3600000, 'retention.bytes' => 1000, 'cleanup.policy' => 'delete,compact', 'max.message.bytes' => 5000), topic('plain', -1, -1),
        topic('made.by-kafka_1', 1, 1), topic('bad/name', 1, 1), topic('x' x 64, 1, 1), topic('none', 0, 1), topic('many', 257, 1), topic('three', 1, 3), topic('conf', 1, 1, 'no.such' => 1),
        topic('value', 1, 1, 'retention.ms' => 'long'), topic('fixed', 1, 1, 'min.insync.replicas' => 2), topic('theirs', 1, 1), topic('twice', 1, 1), topic('twice', 1, 1)),
    { made => 0, plain => 0, 'made.by-kafka_1' => 0, 'bad/name' => 17, 'x' x 64 => 17, none => 37, many => 37, three => 38, conf => 40, value => 40, fixed => 40, theirs => 36, twice => 42 },
    'topics: each has its own error');
like($why{three}, qr/one broker/, 'with a reason');
is($s->sql("SELECT string_agg(concat_ws(' ', name, owner, shards, timestamp_type, retention_age, retention_bytes, max_record_bytes, cleanup_policy), ', ' ORDER BY name) FROM fleetlog.stream WHERE owner = 'boss'"),
    'made boss 4 create 01:00:00 4000 5000 compact,delete, made.by-kafka_1 boss 1 create delete, plain boss 1 create delete', 'they are streams of the role, and nothing is there of those that were refused');
is($boss->topics, 'made made.by-kafka_1 plain theirs', 'and topics at once');
is_deeply(create($boss, 1, topic('only-asked', 2, 1), topic('made', 1, 1)), { 'only-asked' => 0, made => 36 }, 'validate only: the same answers');
is($s->sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'only-asked%'"), '0', 'and nothing is made');

# ---- who may ----

my $dash = client('dash', 'pw-dash');
my $other = client('other', 'pw-other');
my $device = client('acme/d1', 'pw-d1');
is_deeply(create($dash, 0, topic('mine', 1, 1)), { mine => 29 }, 'a role without the right of create_stream makes no topic');
is_deeply(create($device, 0, topic('mine', 1, 1)), { mine => 29 }, 'nor does a device');
is_deeply(delete_topics($dash, 5000, 'theirs'), { theirs => 29 }, 'whoever may read and write may not delete');
is_deeply(delete_topics($boss, 5000, 'theirs'), { theirs => 29 }, 'nor may an administrator who does not own it, as in SQL');
is_deeply(partitions($boss, 0, theirs => 3), { theirs => 29 }, 'nor add partitions');
is(change($boss, 0, 'theirs', [ 'retention.ms', 0, 1 ]), 29, 'nor change it');
is_deeply(records($boss, 'theirs', 0 => -1), { 0 => '29 -1' }, 'nor delete records');
is_deeply(delete_topics($other, 5000, 'made'), { made => 29 }, 'a topic that one may not see is not deleted either');
is($s->sql("SELECT shards, retention_age IS NULL FROM fleetlog.stream WHERE name = 'theirs'"), '2|t', 'nothing has changed');

# ---- configurations ----

my $all = configs($boss, 2, 'made');
is(join(' ', @{$all}{qw(! cleanup.policy retention.ms retention.bytes max.message.bytes message.timestamp.type compression.type segment.ms)}),
    '0 compact,delete 3600000 1000 5000 CreateTime producer 604800000', 'B10: configurations as they were set, or their defaults');
is(join(' ', @source{qw(cleanup.policy retention.ms compression.type max.message.bytes)}), '1 1 5 1', 'and where they come from');
is_deeply(configs($boss, 2, 'made', 'cleanup.policy'), { '!' => 0, 'cleanup.policy' => 'compact,delete' }, 'B4: those that are asked for');
is(configs($boss, 2, 'nothing')->{'!'}, 3, 'unknown topic: 3');
my $broker = configs($boss, 4, '1');
is(join(' ', @{$broker}{qw(! num.partitions default.replication.factor log.retention.ms auto.create.topics.enable)}), '0 1 1 -1 false', 'the broker has some, too');
is(configs($boss, 4, '2')->{'!'}, 42, 'there is no other broker');
is(change($boss, 0, 'made', [ 'cleanup.policy', 3, 'compact' ], [ 'retention.ms', 1, undef ], [ 'segment.ms', 0, 1000 ], [ 'compression.type', 0, 'zstd' ]), 0, 'changed one by one');
is($s->sql("SELECT cleanup_policy, retention_age IS NULL, segment_age, compression, retention_bytes FROM fleetlog.stream WHERE name = 'made'"), 'delete|t|00:00:01|zstd|4000', 'what was named, and nothing else');
is(change($boss, 0, 'made', [ 'cleanup.policy', 2, 'compact' ], [ 'retention.ms', 0, 5 ], [ 'segment.ms', 0, 'x' ]), 40, 'one that cannot be');
is(change($boss, 0, 'made', [ 'retention.ms', 0, 5 ], [ 'retention.ms', 1, undef ]), 42, 'one that is named twice');
is(change($boss, 0, 'made', [ 'retention.ms', 2, 5 ]), 40, 'an addition to what is no list');
is(change($boss, 1, 'made', [ 'retention.ms', 0, 5 ]), 0, 'validate only');
is($s->sql("SELECT cleanup_policy, retention_age IS NULL, segment_age FROM fleetlog.stream WHERE name = 'made'"), 'delete|t|00:00:01', 'none of it has changed anything');
is(alter($boss, 'made', 'retention.ms' => 7200000), 0, 'B10: the old request');
is(join(' ', @{ configs($boss, 2, 'made') }{qw(retention.ms retention.bytes segment.ms compression.type)}), '7200000 -1 604800000 producer', 'replaces all');
is(altered(ask($boss, 33, 1, array("\2" . str('made') . array(map { str('retention.ms') . str($_) } 5, 6)) . "\0")), 42, 'nor may a name stand there twice');
is(configs($boss, 2, 'made')->{'retention.ms'}, 7200000, '... which changes nothing');
is(alter($boss, 'made', 'compression.type' => 'gzip'), 40, 'batches are not compressed anew by gzip');
my $r = ask($boss, 44, 0, array("\4" . str('1') . array(str('num.partitions') . "\0" . str('3'))) . "\0");
is(altered($r), 42, 'a broker is configured elsewhere');
like($why{alter}, qr/postgresql\.conf/, 'and is told where');

# ---- partitions ----

is(change($boss, 0, 'made', [ 'retention.bytes', 0, 1000 ]), 0, 'kept bytes are each partition\'s');
is_deeply(partitions($boss, 1, made => 6), { made => 0 }, 'B8: validate only');
is_deeply(partitions($boss, 0, made => 6, plain => 1, nothing => 2, 'made.by-kafka_1' => 257), { made => 0, plain => 37, nothing => 3, 'made.by-kafka_1' => 37 }, 'B8: a result for each');
is($s->sql("SELECT shards, retention_bytes FROM fleetlog.stream WHERE name = 'made'"), '6|6000', 'partitions are shards');
is_deeply(partitions($boss, 0, made => 3), { made => 37 }, 'none is taken away');
is(configs($boss, 2, 'made')->{'retention.bytes'}, 1000, 'and each keeps what it did');

# ---- records ----

$s->sql("SELECT fleetlog.append('plain', 'k', 'v') FROM generate_series(1, 10)");
is_deeply(records($boss, 'plain', 0 => 5, 1 => 0), { 0 => '0 5', 1 => '3 -1' }, 'B9: records deleted up to an offset');
is_deeply(records($boss, 'plain', 0 => 11), { 0 => '1 -1' }, 'B9: not beyond the tail');
is_deeply(records($boss, 'plain', 0 => 2), { 0 => '0 5' }, 'what is gone is no error');
my $hold = $s->sql("SELECT fleetlog.hold('plain', '{\"0\": [[6, 8]]}', 'a claim')");
my $since = -s $s->node->logfile;
is_deeply(records($boss, 'plain', 0 => 8), { 0 => '44 -1' }, 'L8: a hold refuses it');
$s->wait_for_log(qr/DeleteRecords is refused: .*hold $hold/, $since);
is($s->sql("SELECT fleetlog.head('plain', 0)"), '5', 'and all is there');
is_deeply(delete_topics($boss, 5000, 'plain'), { plain => 44 }, 'nor is a topic deleted that is held');
$s->sql("SELECT fleetlog.release_hold($hold)");
is_deeply(records($boss, 'plain', 0 => -1), { 0 => '0 10' }, 'B9: all of them');

# ---- deleting ----

$s->sql("SET ROLE boss; SELECT fleetlog.mount('boss/', 'plain')");
is_deeply(delete_topics($boss, 5000, 'plain', 'nothing', 'made'), { plain => 44, nothing => 3, made => 0 }, 'a topic that devices publish to is not deleted');
$s->sql("SELECT fleetlog.unmount('boss/')");
my $reader = $s->session;
$reader->query('BEGIN; SELECT count(*) FROM plain');
is_deeply(delete_topics($boss, 500, 'plain'), { plain => 7 }, 'one that is read is not waited for longer than the client says');
is_deeply(create($boss, 0, topic('meanwhile', 1, 1)), { meanwhile => 0 }, 'and keeps nobody else waiting');
$reader->query('COMMIT');
$reader->quit;
is_deeply(delete_topics($boss, 20000, 'plain'), { plain => 0 }, 'when it is free it goes');
is($boss->topics, 'made.by-kafka_1 meanwhile theirs', 'what is deleted is no topic any more');

# ---- the newest versions ----

sub flexible { my ($c, $key, $version, $body) = @_; $c->request($key, $version, $body, flexible => 1); my ($id, $answer) = $c->answer; return $answer; }
sub new_topic { return flexible($boss, 19, 7, "\2" . "\4new" . pack('N n', 3, 1) . "\1\1\0" . pack('N c', 20000, 0) . "\0"); }
my $made = new_topic();
my ($id, $error, $count) = unpack 'x6 x4 a16 s> x N', $made;
is("$error $count", '0 3', 'CreateTopics 7');
is(unpack('x35 C', $made) - 1, keys(%$all) - 1, 'B3: it tells as many configurations as DescribeConfigs');
my $answer = flexible($boss, 75, 0, "\2" . "\4new\0" . pack('N', 2) . "\xFF\0");
like($answer, qr/new\Q$id\E/, 'A7: DescribeTopicPartitions tells the id with which it was made');
is(scalar(() = $answer =~ /(?=(\x02\x00\x00\x00\x01){2}\x01\x01\x01\x00)/g), 2, 'lists of replicas that there are none of are empty, not null: Java fails over that');
like($answer, qr/\x01\x04new\x00\x00\x00\x02\x00\x00$/, 'two partitions of three, and where to go on');
like(flexible($boss, 20, 6, "\2" . "\0$id\0" . pack('N', 20000) . "\0"), qr/\x04new\Q$id\E\x00\x00/, 'DeleteTopics 6: by id');
like(flexible($boss, 20, 6, "\2" . "\0$id\0" . pack('N', 20000) . "\0"), qr/\Q$id\E\x00\x64/, 'an id that is gone: 100');
new_topic() =~ /\x04new(.{16})\x00\x00/s;
isnt($1, $id, 'A7: made again it has another id');
is(unpack('x5 s>', flexible($boss, 46, 0, pack('N', 1000) . "\0\0")), 0, 'no reassignments');

# ---- what there is none of ----

$r = ask($boss, 29, 1, pack('c n c n n c c', 1, 0xFFFF, 1, 0xFFFF, 0xFFFF, 1, 1));
i32($r);
is(i16($r), 54, 'access lists: there is no authorizer');
$r = ask($boss, 35, 1, pack('N', 0xFFFFFFFF));
i32($r); i32($r);
is(i16($r), 0, 'sizes of topics');
like($r->{in}, qr/meanwhile/, 'of those that one may see');

# ---- what expires ----

$s->sql("SELECT fleetlog.create_stream('kept', retention_age => '100 ms', cleanup_policy => 'compact'), fleetlog.create_stream('gone', retention_age => '100 ms')");
$s->sql("SELECT fleetlog.append(s, 'k', 'v') FROM unnest('{kept,gone}'::regclass[]) s");
$s->wait_for("SELECT fleetlog.head('gone', 0)", '1');
is($s->sql("SELECT fleetlog.head('kept', 0)"), '0', 'with the policy compact alone nothing expires');

# ---- topics that are made when they are asked for ----

sub unknown { my ($c, $name) = @_; my $answer = ask($c, 3, 1, array(str($name))); return $answer->{in} =~ /\x00\x03\x00.\Q$name\E/s; }
ok(unknown($boss, 'asked'), 'off: a topic that is missing is unknown');
$s->set_conf('fleetlog.kafka_listen' => "127.0.0.1:$port", 'fleetlog.kafka_auto_create_topics' => 'on');
FleetlogTest::wait_until(sub { !unknown($boss, 'asked') }, 'on: it is made');
is($s->sql("SELECT owner, shards FROM fleetlog.stream WHERE name = 'asked'"), 'boss|1', 'for a role that may');
ok(unknown($dash, 'asked-too'), 'and for no other');

# ---- clients of others ----

SKIP:
{
    skip 'kafka-python is not here', 1 if system('/usr/bin/python3 -c "import kafka" 2>/dev/null') != 0;
    my ($out, $err) = ('', '');

    IPC::Run::run([ '/usr/bin/python3', '-c', <<'PY', "127.0.0.1:$port" ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
import sys
from kafka.admin import KafkaAdminClient, NewTopic, NewPartitions, ConfigResource, ConfigResourceType
a = KafkaAdminClient(bootstrap_servers=sys.argv[1], security_protocol='SASL_PLAINTEXT', sasl_mechanism='PLAIN', sasl_plain_username='boss', sasl_plain_password='pw-boss')
a.create_topics([NewTopic('py', 2, 1, topic_configs={'retention.ms': '60000'})])
a.create_partitions({'py': NewPartitions(3)})
a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, 'py', {'retention.ms': '120000'})])
r = a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, 'py', {'retention.ms': None})])
r = (r[0] if isinstance(r, list) else r).resources[0][4]
n = len(a.describe_topics(['py'])[0]['partitions'])
a.delete_topics(['py'])
print(n, [c[1] for c in r], 'py' in a.list_topics())
PY
    is($out, "3 ['120000'] False\n", 'kafka-python administers') or diag $err;
}
is($s->crashes, '', 'nothing has crashed');
done_testing();
