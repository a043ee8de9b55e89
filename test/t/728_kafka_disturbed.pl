# L5, L8, K2, K5: what happens around Kafka clients while they are at work: no open transaction of the database delays a consumer;
# batches of every codec lie across the ends of segments; heads move within batches that are just read; records and topics
# are deleted while devices publish and consumers wait; tables are locked.  Case I1.
use strict;
use warnings;
use Test::More;
use IO::Select;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::KafkaBatch qw(batch produce read_produce record send_produce);
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_disturbed', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 0
fleetlog.worker_retry = 100ms
max_prepared_transactions = 5
CONF
$s->fleet(devices => 1);
$s->sql("SELECT fleetlog.create_stream('t', shards => 4, compression => 'none'); CREATE TABLE other (n int); INSERT INTO other VALUES (1)");
$s->sql("CREATE ROLE boss LOGIN PASSWORD 'pw-boss' IN ROLE fleetlog_admin; ALTER TABLE t OWNER TO boss");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the Kafka door');
sub client { return FleetlogTest::KafkaFetch->connect($port); }
sub values_of { my ($p) = @_; return join ' ', map { $_->{value} // 'NULL' } map { @{ $_->{records} } } FleetlogTest::KafkaFetch::batches($p->{records}); }
my $long = 600_000;
my $kcat = grep { -x "$_/kcat" } split /:/, $ENV{PATH};
sub kcat { my ($in, @args) = @_; my ($out, $err) = ('', ''); IPC::Run::run([ 'timeout', '120', 'kcat', '-b', "127.0.0.1:$port", '-q', @args ], '<', \$in, '>', \$out, '2>', \$err); note($err) if $err ne ''; return $out; }

# ---- open transactions ----

# Shard 3 is written by those that stay open; nobody else can write there before they end, so others use 0 to 2.
my %open = (
    'a session idle in a transaction that has an id' => sub { my $x = $s->session; $x->query('BEGIN; INSERT INTO other VALUES (2); SELECT pg_current_xact_id()'); return sub { $x->query('ROLLBACK'); $x->quit } },
    'an old snapshot' => sub { my $x = $s->session; $x->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t'); return sub { $x->query('COMMIT'); $x->quit } },
    'a serializable reader' => sub { my $x = $s->session; $x->query('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t, other'); return sub { $x->query('COMMIT'); $x->quit } },
    'an open cursor' => sub { my $x = $s->session; $x->query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 1 FROM c"); return sub { $x->query('COMMIT'); $x->quit } },
    'a writer of another shard' => sub { my $x = $s->session; $x->query("BEGIN; SELECT fleetlog.append('t', 'k', 'held', NULL, 3)"); return sub { $x->query('ROLLBACK'); $x->quit } },
    'a prepared transaction' => sub { $s->sql("BEGIN; INSERT INTO other VALUES (3); PREPARE TRANSACTION 'p'"); return sub { $s->sql("ROLLBACK PREPARED 'p'") } },
    'a locked row' => sub { my $x = $s->session; $x->query('BEGIN; SELECT * FROM other FOR UPDATE'); return sub { $x->query('COMMIT'); $x->quit } });
my ($c, $w) = (client(), client());
my $m = FleetlogTest::KafkaGroup->open($port, group => 'g');
is($m->join_group(session => 600_000), 0, 'a member of a group');
is($m->sync({ $m->{id} => 'all' }), 0, 'which has everything');
my ($n, %end) = (0);
sub goes_on
{
    my ($what) = @_;
    my $value = 'v' . ++$n;

    $c->send_fetch([ [ 't', map { [ $_, $n - 1 ] } 0 .. 2 ] ], max_wait => $long, min_bytes => 1);
    my ($r) = produce($w, 9, -1, [ 't', 0, batch(records => [ record('k', $value) ]) ], [ 't', 1, batch(records => [ record('k', $value) ]) ], [ 't', 2, batch(records => [ record('k', $value) ]) ]);
    is($r->{error}, 0, "I1: $what: a producer is answered");
    my $answer = $c->read_fetch;
    is((grep { $_ eq $value } map { values_of($answer->{parts}{"t:$_"}) } 0 .. 2) > 0, 1, 'I1: ... a reader that waits has the record at once');
    is(join(',', $m->commit(map { [ 't', $_, $n ] } 0 .. 2)), '0,0,0', 'I1: ... a group commits');
    is($m->fetch([ 't', 0 ])->{'t:0'}, "$n -1 ", 'I1: ... and reads its position');
    is($m->heartbeat, 0, 'I1: ... and lives');
    return;
}
for my $what (sort keys %open)
{
    $end{$what} = $open{$what}->();
    goes_on($what);
}
goes_on('all of them together');
SKIP:
{
    skip 'kcat is not here', 1 unless $kcat;
    is(kcat('', '-C', '-t', 't', '-p', '1', '-o', 'beginning', '-e', '-f', '%s '), join('', map { "v$_ " } 1 .. $n), 'I1: librdkafka reads everything meanwhile');
}
$_->() for values %end;
is($s->sql("SELECT count(*) FROM t WHERE fleetlog.text(payload) = 'held'"), '0', 'what was aborted never was');

# ---- across the ends of segments ----

SKIP:
{
    skip 'kcat is not here', 5 unless $kcat;
    # As small as segments may be, so that each codec's batches meet the ends of several; large records, and many small ones.
    for my $codec (qw(none gzip snappy lz4 zstd))
    {
        $s->sql("SELECT fleetlog.create_stream('seg_$codec', segment_bytes => 1, max_record_bytes => 2000000)");
        my $written = '';
        for my $round (1 .. 3)
        {
            my @lines = map { my $l = $round == 2 ? 30_000 : 40; "$codec-$round-$_-" . join '', map { chr(97 + int rand 26) } 1 .. $l } 1 .. ($round == 2 ? 30 : 3000);
            my $in = join '', map { "$_\n" } @lines;
            $written .= $in;
            FleetlogTest::wait_until(sub { (produce($w, 9, -1, [ "seg_$codec", 0, batch(records => [ record(undef, 'first') ]) ]))[0]{error} == 0 }, 'the stream') if $round == 1;
            kcat($in, '-P', '-t', "seg_$codec", '-p', '0', '-z', $codec, '-X', 'linger.ms=50', '-X', 'batch.num.messages=2000', '-X', 'message.max.bytes=2000000', '-X', 'enable.idempotence=false');
        }
        my $read = kcat('', '-C', '-t', "seg_$codec", '-o', '1', '-e', '-f', "%s\n");
        ok($read eq $written, "$codec: " . length($written) . ' bytes of 6030 records come back in order');
        cmp_ok($s->sql("SELECT count(*) FROM fleetlog._segments('seg_$codec'::regclass)"), '>', 2, '... from several segments');
        is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('seg_$codec')"), 't', '... that are sound');
    }

    # A head that passes through a batch while somebody reads it.
    my $middle = 1500;
    is($s->sql("SELECT fleetlog.trim_head('seg_gzip', 0, $middle, NULL)"), $middle, 'records deleted up to the middle of a batch');
    is(kcat('', '-C', '-t', 'seg_gzip', '-o', $middle, '-e', '-c', '1', '-f', '%o'), $middle, 'who is inside it goes on');
    is($c->fetch_one('seg_gzip', 0, $middle - 1)->{error}, 1, 'who is below it is told so');
    is(kcat('', '-C', '-t', 'seg_gzip', '-o', '5', '-e', '-c', '1', '-f', '%o', '-X', 'auto.offset.reset=earliest'), $middle, 'and begins at the head');
}

# ---- records and topics that go ----

my $boss = client();
is(($boss->log_in('boss', 'pw-boss'))[0], 0, 'an administrator');
sub records_error { my ($topic, $offset) = @_; $boss->request(21, 1, pack('N', 1) . pack('n/a*', $topic) . pack('N N q> N', 1, 0, $offset, 10000)); return unpack 'n', substr +($boss->answer)[1], -2; }
sub topic_error { my ($topic) = @_; $boss->request(20, 3, pack('N', 1) . pack('n/a*', $topic) . pack('N', 10000)); return unpack 'n', substr +($boss->answer)[1], -2; }
my $tail = $s->sql("SELECT fleetlog.tail('t', 0)");
my $hold = $s->sql("SELECT fleetlog.hold('t', '{\"0\": [[2, 4]]}', 'a claim')");
$c->send_fetch([ [ 't', [ 0, $tail ] ] ], max_wait => $long);
is(records_error('t', 4), 44, 'L8: a hold refuses DeleteRecords');
is(records_error('t', 2), 0, 'up to what it holds it does not');
$s->sql("SELECT fleetlog.release_hold($hold)");
is(records_error('t', -1), 0, 'then all may go');
my $writer = client();
is((produce($writer, 9, -1, [ 't', 0, batch(records => [ record('k', 'behind') ]) ]))[0]{error}, 0, 'a record behind what was deleted');
is(values_of($c->read_fetch->{parts}{'t:0'}), 'behind', 'who waited at the tail has it');

$s->sql("SELECT fleetlog.unmount('acme/'); SELECT fleetlog.mount('acme/', 't')");
my $device = $s->device('d1');
is($device->publish_acked('acme/d1/x', 'one'), 0, 'a device publishes into the topic');
my @waiting = map { client() } 0 .. 3;
my @tail = map { $s->sql("SELECT fleetlog.tail('t', $_)") } 0 .. 3;
$waiting[$_]->send_fetch([ [ 't', [ $_, $tail[$_] ] ] ], max_wait => $long) for 0 .. 3;
is(topic_error('t'), 44, 'a topic that devices publish to is not deleted');
is($device->publish_acked('acme/d1/x', 'two'), 0, 'and they go on');
my ($told) = grep { $s->sql("SELECT fleetlog.tail('t', $_)") > $tail[$_] } 0 .. 3;
is(values_of($waiting[$told]->read_fetch->{parts}{"t:$told"}), 'two', 'as does who waits for their records');
$waiting[$told]->send_fetch([ [ 't', [ $told, $tail[$told] + 1 ] ] ], max_wait => $long);
$s->sql("SELECT fleetlog.unmount('acme/')");
is(topic_error('t'), 0, 'without them it is');
is(join(' ', map { $waiting[$_]->read_fetch->{parts}{"t:$_"}{error} } 0 .. 3), '3 3 3 3', 'all who wait for it are told');
isnt($device->publish_acked('acme/d1/x', 'three'), 0, 'a device is told that nobody takes its message');
is(join(',', $m->commit([ 't', 0, 99 ])), '3', 'a group has no position there any more');
is($s->sql("SELECT count(*) FROM fleetlog.consumer_position WHERE consumer = 'g'"), '0', 'nor any row');
$s->sql("SELECT fleetlog.create_stream('t'); SELECT fleetlog.mount('acme/', 't')");
FleetlogTest::wait_until(sub { $device->publish_acked('acme/d1/x', 'four') == 0 }, 'the new topic');
my $p = $c->fetch_one('t', 0, 0);
like(values_of($p), qr/^four/, 'a topic of the same name begins anew');

# ---- tables that are locked ----

# Nobody has opened them since the start, which is when their tables are looked at.
$s->sql("SELECT fleetlog.create_stream('held', shards => 2), fleetlog.create_stream('shut', shards => 2), fleetlog.create_stream('shut_created', timestamp_type => 'create'); SELECT fleetlog.create_stream('other_topic')");
$s->sql("SELECT fleetlog.append(t, 'k', 'kept'::bytea, NULL, 0) FROM unnest('{held,shut,shut_created,other_topic}'::regclass[]) t");
$s->node->restart;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the Kafka door');
my $holder = $s->session;

# Who asks for them waits, with the patience that he has himself; nobody else does.
sub has_answer { my ($x) = @_; return length $x->{in} || IO::Select->new($x->{socket})->can_read(0) ? 1 : 0; }
$holder->query('BEGIN; LOCK TABLE shut, shut_created IN ACCESS EXCLUSIVE MODE');
my @patient = map { client() } 0 .. 9;
$_->send_fetch([ [ 'shut', [ 0, 0 ], [ 1, 0 ] ], [ 'shut_created', [ 0, 0 ] ] ], max_wait => $long) for @patient;
my ($producer, $other) = (client(), client());
send_produce($producer, 9, -1, [ 'shut', 1, batch(records => [ record('k', 'waited') ]) ]);
my $served = grep { values_of($other->fetch_one('other_topic', 0, 0)) eq 'kept' } 1 .. 200;
is($served, 200, 'O4: 200 requests for another topic are served while others wait for a locked table');
is($other->list_offsets(1, [ 'other_topic', 0, -1 ]), '0 1 -1', 'O4: ... its offsets are told');
is($other->list_offsets(1, [ $_, 0, -1 ]), '56 -1 -1', "O4: ... those of a locked table are an error to be tried again ($_)") for qw(shut shut_created);
is(join(' ', map { $other->fetch([ [ 'shut', [ 0, 0 ] ], [ 'other_topic', [ 0, 0 ] ] ], max_wait => 0)->{parts}{$_}{error} } 'shut:0', 'other_topic:0'), '56 0', 'O4: ... who does not wait is told at once which of them it is');
is(values_of($other->fetch([ [ 'shut', [ 0, 0 ] ], [ 'other_topic', [ 0, 0 ] ] ], max_wait => $long)->{parts}{'other_topic:0'}), 'kept', 'O4: ... and who asks for both gets what there is');
is(join(' ', map { has_answer($_) } @patient, $producer), join(' ', (0) x 11), 'O4: ... while those who wait have no answer yet');
$holder->query('COMMIT');
is(join(' ', map { my $r = $_->read_fetch; join '+', map { values_of($r->{parts}{$_}) } 'shut:0', 'shut_created:0' } @patient), join(' ', ('kept+kept') x 10), 'O4: ... and it is the records when the lock is gone');
is((read_produce($producer, 9))[0]{error}, 0, 'O4: ... as is the record that was produced');
$holder->query('BEGIN; LOCK TABLE shut_created IN ACCESS EXCLUSIVE MODE');
is($other->list_offsets(1, [ 'shut_created', 0, 1 ]), '56 -1 -1', 'O4: a search by time in a locked table, which was opened before, is an error to be tried again');
$holder->query('ROLLBACK');
is($other->list_offsets(1, [ 'shut_created', 0, 1 ]), '0 -1 -1', 'O4: ... and then it ends');

$holder->query('BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE');
$c = client();
$c->request(3, 1, pack('l>', -1));
like(($c->answer)[1], qr/other_topic/, 'I1: a locked table: Metadata of all topics is answered');
my $answer = eval { $c->send_fetch([ [ 'held', [ 0, 0 ] ] ], max_wait => 1000); $c->read_fetch };
is($answer && $answer->{parts}{'held:0'}{error}, 56, 'I1: ... its reader is told to come again (KAFKA_STORAGE_ERROR), the door does not wait for ever');
is(values_of($c->fetch_one('other_topic', 0, 0)), 'kept', 'I1: ... on the same connection others are read');
$c->request(23, 3, pack('N', 0xFFFFFFFF) . pack('N', 1) . pack('n/a*', 'held') . pack('N', 1) . pack('N l> N', 0, -1, 0));
is(unpack('n', substr +($c->answer)[1], 4 + 4 + 2 + 4 + 4, 2), 56, 'I1: ... OffsetForLeaderEpoch is answered');
$s->sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'fleetlog front door'");
$holder->query('DROP TABLE held');
$c->request(3, 1, pack('l>', -1));
like(($c->answer)[1], qr/other_topic/, 'I1: a topic that is being dropped, and a cancel request: Metadata is answered');
$holder->query('COMMIT');
is($c->fetch_one('held', 0, 0)->{error}, 3, 'who reads it is told that it is gone');
is(values_of($c->fetch_one('other_topic', 0, 0)), 'kept', 'and the connection lives');

is($s->crashes, '', 'nothing has crashed');
done_testing();
