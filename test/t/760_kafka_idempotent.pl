# K3: idempotent producers. Ids that nobody else was given, and each rule of sequences and epochs by hand-made requests: written by a
# door, by the appender, behind a restart, behind kill -9, and behind a snapshot. Cases C1, C3, C5, C7, C14.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch record produce send_produce read_produce init_producer_id);

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_idempotent', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_max_producers = 100
wal_writer_delay = 10s
CONF
my $c;

sub connect_kafka
{
    $s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');
    $c = FleetlogTest::Kafka->connect($port);
    return;
}

# A batch of an idempotent producer: records say their sequence.
sub numbered
{
    my ($id, $epoch, $first, $count, %opt) = @_;

    return batch(records => [ map { record("p$id", "e$epoch-" . (($first + $_) & 0x7FFFFFFF)) } 0 .. $count - 1 ], producer => [ $id, $epoch, $first ], %opt);
}

# "error offset" of one of them.
sub send_one
{
    my ($topic, @args) = @_;
    my ($r) = produce($c, 9, -1, [ $topic, 0, numbered(@args) ]);

    return $r ? "$r->{error} $r->{offset}" : 'closed';
}

sub tail { return $s->sql("SELECT fleetlog.tail('$_[0]', 0)"); }
sub values_of { return $s->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY log_offset) FROM $_[0]" . ($_[1] ? " WHERE key = 'p$_[1]'" : '')); }

$s->sql("SELECT fleetlog.create_stream('$_') FROM (SELECT) x") for qw(a b);
connect_kafka();

# ---- ids ----

my %given;

# In every version: the error, or the id once it was found to be new.
sub init_in
{
    my ($version, $txn, $id, $epoch) = @_;
    my $flexible = $version >= 2;
    my $name = defined $txn ? ($flexible ? chr(1 + length $txn) . $txn : pack('n/a*', $txn)) : ($flexible ? "\0" : "\xFF\xFF");

    $c->request(22, $version, $name . pack('N', 60000) . ($version >= 3 ? pack('q> s>', $id // -1, $epoch // -1) : '') . ($flexible ? "\0" : ''), flexible => $flexible);
    my ($corr, $in) = $c->answer or return 'closed';
    substr($in, 0, 1) = '' if $flexible;
    my ($throttle, $error, $got, $got_epoch) = unpack 'N s> q> s>', $in;

    return "error $error" if $error;
    return $got > 0 && $got_epoch == 0 && !$given{$got}++ ? 'new' : "again $got $got_epoch";
}

is(init_in($_), 'new', "C14: InitProducerId, version $_") for 0 .. 5;
is(init_in(4), 'new', 'and another one') for 1 .. 3;
is(init_in(4, undef, 5, 0), 'new', 'KIP-360: who names an id and an epoch is given a new id');
is(init_in(4, undef, 5, -1), 'error 42', 'an id without an epoch');
is(init_in(4, undef, -1, 3), 'error 42', 'an epoch without an id');
is(init_in(4, 'mine'), 'error 53', 'a transactional id');
is(init_in(4, ''), 'error 42', 'an empty transactional id');

# ---- the rules, whoever writes and whatever was before ----

sub one_id
{
    my ($id, $epoch) = init_producer_id($c);

    die "no producer id: $epoch" unless defined $id;
    $given{$id}++;
    return $id;
}

# Seven batches of two records, then `between`, then every rule.
sub check_rules
{
    my ($topic, $what, $between) = @_;
    my $id = one_id();
    my $base = tail($topic);
    my @sent = map { send_one($topic, $id, 0, 2 * $_, 2) } 0 .. 6;

    is(join(',', @sent), join(',', map { '0 ' . ($base + 2 * $_) } 0 .. 6), "$what: batches in sequence are written");
    $between->() if $between;
    is(join(',', map { send_one($topic, $id, 0, 2 * $_, 2) } 2 .. 6), join(',', map { '0 ' . ($base + 2 * $_) } 2 .. 6), "$what: C1, the last five sent again have the offsets that they had");
    is(send_one($topic, $id, 0, 0, 2), '46 -1', "$what: one of before is said to be a duplicate");
    is(tail($topic), $base + 14, "$what: nothing was written by that");
    is(send_one($topic, $id, 0, 15, 1), '45 -1', "$what: a gap");
    is(send_one($topic, $id, 0, 13, 2), '45 -1', "$what: one that overlaps");
    is(send_one($topic, $id, 0, 14, 1), '0 ' . ($base + 14), "$what: the next one is written");
    is(send_one($topic, $id, 2, 3, 1), '45 -1', "$what: a new epoch begins with 0");
    is(send_one($topic, $id, 2, 0, 1), '0 ' . ($base + 15), "$what: and then it does");
    is(send_one($topic, $id, 1, 1, 1), '47 -1', "$what: an epoch that is over");
    is(send_one($topic, $id, 2, 0, 1), '0 ' . ($base + 15), "$what: a duplicate in the new one");
    is(values_of($topic, $id), join(' ', (map { "e0-$_" } 0 .. 14), 'e2-0'), "$what: each record is there once");
    return;
}

check_rules('a', 'written by the door');
$s->set_conf('fleetlog.door_writes' => 'off');
$s->wait_for('SHOW fleetlog.door_writes', 'off', 'the reload');
check_rules('b', 'by the appender');
check_rules('b', 'restarted', sub { $s->node->restart; connect_kafka() });
$s->set_conf();
check_rules('a', 'killed', sub { $s->kill9_and_start; connect_kafka() });
is(init_in(4), 'new', 'ids are new behind all of that') for 1 .. 2;
is(scalar(grep { $_ > 1 } values %given), 0, 'none was given twice');

# Sequences go round.  An id that this server has not given since its start.
my $id = 999;
my $max = 0x7FFFFFFF;
my $base = tail('a');
is(send_one('a', $id, 0, $max - 2, 2), "0 $base", 'a producer that nobody knows begins anywhere');
is(send_one('a', $id, 0, $max, 3), '0 ' . ($base + 2), 'behind 2^31 - 1 comes 0');
is(send_one('a', $id, 0, $max, 3), '0 ' . ($base + 2), 'a duplicate of that');
is(send_one('a', $id, 0, 0, 1), '0 ' . ($base + 3), 'and of a part');
is(send_one('a', $id, 0, 2, 1), '0 ' . ($base + 5), 'and it goes on');
is(send_one('a', $id, 0, $max - 3, 1), '45 -1', 'what was before its first was never there');

# Shards and streams have their own sequences.
$s->sql("SELECT fleetlog.create_stream('two', shards => 2)");
my @parts = map { [ 'two', $_, numbered($id, 0, 0, 2) ] } 0, 1;
is(join(',', map { "$_->{error} $_->{offset}" } produce($c, 9, -1, @parts)), '0 0,0 0', 'each shard counts for itself') for 1, 2;
is($s->sql('SELECT count(*) FROM two'), '4', 'once');

# C3: times of records say nothing.
$id = one_id();
$base = tail('a');
is(send_one('a', $id, 0, $_, 1, base_time => -1, max_time => -1), '0 ' . ($base + $_), 'C3: records without times') for 0, 1;
is(send_one('a', $id, 0, 0, 1, base_time => -1, max_time => -1), "0 $base", 'and a duplicate of them');

# ---- several in flight ----

# While SQL holds the shard five are under way, and all of them once more.
$id = one_id();
$base = tail('a');
my $holder = $s->session;
$holder->query('BEGIN');
$holder->query("SELECT fleetlog.append('a', 'sql', 'x')");
send_produce($c, 9, -1, [ 'a', 0, numbered($id, 0, $_, 1) ]) for 0 .. 4, 0 .. 4;
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
$holder->query('COMMIT');
is(join(' ', map { my ($r) = read_produce($c, 9); "$r->{error}/" . ($r->{offset} - $base - 1) } 1 .. 10), join(' ', map { "0/$_" } 0 .. 4, 0 .. 4), 'five in flight, sent twice before the first was answered');
is(values_of('a', $id), join(' ', map { "e0-$_" } 0 .. 4), 'are written once');

# One is refused at the door: those behind it are gaps, and written when they come again in order.
$id = one_id();
$base = tail('a');
my $broken = numbered($id, 0, 1, 1);
substr($broken, -1, 1) ^= "\1";
send_produce($c, 9, -1, [ 'a', 0, $_ ]) for numbered($id, 0, 0, 1), $broken, numbered($id, 0, 2, 1), numbered($id, 0, 3, 1);
is(join(' ', map { my ($r) = read_produce($c, 9); $r->{error} } 1 .. 4), '0 2 45 45', 'behind one that was refused nothing is written');
is(join(' ', map { send_one('a', $id, 0, $_, 1) } 1 .. 3), join(' ', map { '0 ' . ($base + $_) } 1 .. 3), 'in order it is');

# The same with a producer that has written nothing yet: were the second taken, librdkafka would believe the first to be there.
$id = one_id();
$base = tail('a');
$broken = numbered($id, 0, 0, 1);
substr($broken, -1, 1) ^= "\1";
send_produce($c, 9, -1, [ 'a', 0, $_ ]) for $broken, numbered($id, 0, 1, 1), numbered($id, 0, 2, 1);
is(join(' ', map { my ($r) = read_produce($c, 9); "$r->{error} $r->{offset}" } 1 .. 3), '2 -1 45 -1 45 -1', "behind a producer's first batch, which was refused, nothing is written");
is(tail('a'), $base, '... at all');
is(join(' ', map { send_one('a', $id, 0, $_, 1) } 0 .. 2), join(' ', map { '0 ' . ($base + $_) } 0 .. 2), '... and in order it is');

# A segment that DDL has locked: an append cannot be made for a while, and is made in order afterwards.
$id = one_id();
my $segment = $s->sql("SELECT segment FROM fleetlog._segments('a'::regclass) WHERE shard = 0 ORDER BY 1 LIMIT 1");
$holder->query('BEGIN');
$holder->query("LOCK TABLE $segment IN ACCESS EXCLUSIVE MODE");
send_produce($c, 9, -1, [ 'a', 0, numbered($id, 0, $_, 1) ]) for 0 .. 4;
$s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = 'appender' AND state <> 'running'");
$holder->query('COMMIT');
is(join(' ', map { my ($r) = read_produce($c, 9); $r->{error} } 1 .. 5), '0 0 0 0 0', 'a segment that was locked');
is(values_of('a', $id), join(' ', map { "e0-$_" } 0 .. 4), 'has them once, in order');

# C7: the client has given up waiting, and sends again.
$id = one_id();
$holder->query('BEGIN');
$holder->query("SELECT fleetlog.append('a', 'sql', 'x')");
my ($late) = produce($c, 9, -1, [ 'a', 0, numbered($id, 0, 0, 3) ], timeout => 1000);
is($late->{error}, 7, 'C7: a time-out, while nobody knows');
send_produce($c, 9, -1, [ 'a', 0, numbered($id, 0, 0, 3) ]);
$holder->query('COMMIT');
my ($known) = read_produce($c, 9);
is($known->{error}, 0, 'the same again is recognised');
is(values_of('a', $id), 'e0-0 e0-1 e0-2', 'and there once');
is(send_one('a', $id, 0, 3, 1) =~ /^0 / ? 'on' : 'off', 'on', 'it goes on');

# ---- what the log does not tell any more ----

# C5: the originals are trimmed; and then the server is killed.
$id = one_id();
$base = tail('b');
is(send_one('b', $id, 0, $_, 1), '0 ' . ($base + $_), 'written') for 0 .. 2;
$s->sql("SELECT fleetlog.trim_head('b', 0, " . ($base + 3) . ', NULL)');
is(send_one('b', $id, 0, 1, 1), '0 ' . ($base + 1), 'C5: a duplicate of what is trimmed has its old offset');
$s->kill9_and_start;
connect_kafka();
is(send_one('b', $id, 0, 2, 1), '0 ' . ($base + 2), 'also behind kill -9');
is(send_one('b', $id, 0, 4, 1), '45 -1', 'gaps are gaps');
is(send_one('b', $id, 0, 3, 1), '0 ' . ($base + 3), 'and it goes on');

# Much is written behind a producer, by others: a restart reads a snapshot, and what came since.
my $big = batch(records => [ map { record('big', 'x' x 800_000) } 1 .. 2 ]);
my $saved = sub { return $s->sql("SELECT log_offset FROM fleetlog.producer_snapshot WHERE stream = 'b'::regclass AND shard = 0") };
my $before = $saved->();
my $before_base = $base + 2;
my $n = 0;
while ($saved->() == $before && $n++ < 40) { produce($c, 9, -1, [ 'b', 0, $big ]); }
cmp_ok($saved->(), '>', $base + 3, "after $n times 1.6 MB what is known is saved");
is(send_one('b', $id, 0, 4, 2), '0 ' . (tail('b') - 2), 'more behind it');
$base = tail('b') - 2;
$s->kill9_and_start;
connect_kafka();
is(send_one('b', $id, 0, 4, 2), "0 $base", 'a duplicate of what is behind the snapshot');
is(send_one('b', $id, 0, 3, 2), '46 -1', 'one in two pieces of the log');
is(send_one('b', $id, 0, 2, 2), '0 ' . $before_base, 'one of before the snapshot');
is(send_one('b', $id, 0, 7, 2), '45 -1', 'a gap');
is(send_one('b', $id, 0, 6, 2), '0 ' . ($base + 2), 'the next one');

# A batch that is larger than a segment is in several, and is one.
$s->sql("SELECT fleetlog.create_stream('narrow', segment_bytes => 1)");
my $third = one_id();
is(send_one('narrow', $third, 0, 1500 * $_, 1500), '0 ' . 1500 * $_, 'a batch across segments') for 0 .. 5;
$s->kill9_and_start;
connect_kafka();
is(send_one('narrow', $third, 0, 1500 * $_, 1500), '0 ' . 1500 * $_, 'is recognised as a whole when it was read back') for 1 .. 5;
is($s->sql('SELECT count(*) FROM narrow'), 9000, 'once');

# ---- forgetting ----

$id = one_id();
is(send_one('a', $id, 0, $_, 1) =~ /^0 / ? 'ok' : 'no', 'ok', 'written') for 0 .. 1;
is(send_one('a', $id, 0, 5, 1), '45 -1', 'known');
for my $other (1 .. 100) { send_one('a', 1000 + $other, 0, 0, 1); }
is(send_one('a', 1100, 0, 7, 1), '45 -1', 'the newest hundred are known');
is(send_one('a', $id, 0, 5, 1) =~ /^0 / ? 'taken' : 'refused', 'taken', 'fleetlog.kafka_max_producers: who has written nothing for the longest time is forgotten');
is(send_one('a', $id, 0, 7, 1), '45 -1', 'and known again');
$s->set_conf('fleetlog.clock_offset' => 86_500_000);
$s->wait_for('SHOW fleetlog.clock_offset', '86500s', 'the reload');
# Connections take themselves for idle.
FleetlogTest::wait_until(sub { connect_kafka(); send_one('a', $id, 0, 7, 1) =~ /^0 / }, 'fleetlog.kafka_producer_expiration: a producer to be forgotten after a day');
is(send_one('a', $id, 0, 9, 1), '45 -1', 'from then on it is known');

# A stream that is made anew knows nobody.
$s->set_conf();
$s->sql("SELECT fleetlog.drop_stream('two'); SELECT fleetlog.create_stream('two')");
is($s->sql("SELECT count(*) FROM fleetlog.producer_snapshot WHERE stream NOT IN (SELECT oid FROM pg_class)"), '0', 'what was kept of a stream goes with it');
FleetlogTest::wait_until(sub { send_one('two', $id, 0, 33, 1) eq '0 0' }, 'a stream that was made anew to know nobody');

is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('a')"), 't', 'the log is sound');
done_testing();
