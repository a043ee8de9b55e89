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

# Batches as they are stored: read by a client of others, compared with what SQL sees.
$s->sql("INSERT INTO packed (shard, log_offset, ts, key, payload, headers) SELECT 0, i, now(), 'k' || i, convert_to(repeat('text ', i % 40), 'UTF8'), fleetlog.headers(jsonb_build_object('n', i::text)) FROM generate_series(0, 2999) i");
$s->sql("SELECT fleetlog.create_stream('squeezed'); SELECT fleetlog.append('squeezed', 'k', convert_to(repeat('text ', 2000), 'UTF8'))");
my ($squeezed) = batches($c->fetch_one('squeezed', 0, 0));
is(join(' ', $squeezed->{codec}, length($squeezed->{bytes}) < 1000 ? 'small' : 'large'), '3 small', 'K5: a batch is sent as it is compressed');
kcat_says(sub { kcat('%s', '-t', 'squeezed', '-o', 'beginning') }, 'text ' x 2000, 'and read by a client of others');
kcat_says(sub { kcat("%o %k %s %S\n", '-t', 'packed', '-o', 'beginning') =~ s/\s+\z//r }, $s->sql("SELECT string_agg(format(E'%s %s %s %s\n', log_offset, key, fleetlog.text(payload), length(payload)), '' ORDER BY log_offset) FROM packed") =~ s/\s+\z//r, 'many records');

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

$s->sql("SELECT fleetlog.create_stream('large', shards => 3, compression => 'none', max_record_bytes => 4000000)");
$s->sql("SELECT fleetlog.append('large', 'k', convert_to(repeat('x', 2000000), 'UTF8'), NULL, s) FROM generate_series(0, 2) s, generate_series(1, 2)");
is(length((records($c->fetch_one('large', 0, 0, max_bytes => 1, partition_max => 1)))[0]{value}), 2_000_000, 'D3: a record larger than all limits comes');
is(scalar(records($c->fetch_one('large', 0, 0, max_bytes => 3_000_000))), 1, 'D3: the next one only where it has room');
is(scalar(records($c->fetch_one('large', 0, 0, partition_max => 3_000_000))), 1, 'D3: nor beyond the share of its partition');
kcat_says(sub { kcat('%S ', '-t', 'large', '-p', '0', '-o', '0', '-X', 'fetch.message.max.bytes=1000', '-X', 'fetch.max.bytes=3000000', '-X', 'receive.message.max.bytes=4000000') }, '2000000 2000000 ', 'D3: kcat with small limits');
my @order;
for my $turn (1 .. 6)
{
    $answer = $c->fetch([ map { [ 'large', [ $_, 0 ] ] } 0 .. 2 ], max_bytes => 1);
    my @with = grep { length $answer->{parts}{$_}{records} } @{ $answer->{order} };
    is(scalar(@with), 1, "D6: turn $turn: one partition has its first batch");
    is(join(' ', map { $answer->{parts}{$_}{hw} } @{ $answer->{order} }), '2 2 2', 'and all tell where they end');
    push @order, $with[0];
}
is("@order[0 .. 2]" =~ s/large://gr, "@order[3 .. 5]" =~ s/large://gr, 'D6: in turns');
is(join(' ', sort @order[0 .. 2]), 'large:0 large:1 large:2', 'D6: each of them');
$s->set_conf('fleetlog.kafka_max_fetch' => '3MB');
FleetlogTest::wait_until(sub { records($c->fetch_one('large', 0, 0, partition_max => 8_000_000)) == 1 }, 'D6: our own limit');
$s->set_conf;
FleetlogTest::wait_until(sub { records($c->fetch_one('large', 0, 0, partition_max => 8_000_000)) == 2 }, 'the limit to go');
$s->sql("SELECT fleetlog.drop_stream('large')");
FleetlogTest::wait_until(sub { $c->fetch_one('large', 0, 0)->{error} == 3 }, 'a stream that is dropped');

# ---- long polls ----

my $long = 600_000;
my $tail = 4;
for my $round (1 .. 30)
{
    $c->send_fetch([ [ 'plain', [ 0, $tail ] ], [ 'packed', [ 0, 3000 ] ] ], max_wait => $long);
    $s->sql("SELECT fleetlog.append('plain', 'k', 'round $round')");
    my $got = $c->read_fetch->{parts}{'plain:0'};
    fail("round $round: " . values_of($got)) if values_of($got) ne "round $round" || $got->{hw} != ++$tail;
}
pass('thirty requests that wait, thirty records, each by its commit');
my $one = length $c->fetch_one('plain', 0, $tail - 1)->{records};
$c->send_fetch([ [ 'plain', [ 0, $tail ] ] ], max_wait => $long, min_bytes => 2 * $one);
$s->sql("SELECT fleetlog.append('plain', 'k', 'round 4$_')") for 1 .. 3;
is(values_of({ records => substr $c->read_fetch->{parts}{'plain:0'}{records}, 0, 2 * $one }), 'round 41 round 42', 'as much as it wants to wait for');
$tail += 3;
is($c->fetch_one('plain', 0, $tail, max_wait => 50)->{records}, '', 'D4: nothing came: an empty answer, and no error');
$p = $c->fetch_one('plain', 0, $tail - 1, max_wait => 50, min_bytes => 100_000);
is(values_of($p), 'round 43', 'too little came: what there is');

# A stream that goes away, and one that is locked.
$s->sql("SELECT fleetlog.create_stream('going'), fleetlog.create_stream('shut', compression => 'none')");
$s->sql("SELECT fleetlog.append('shut', 'k', 'v')");
$c->send_fetch([ [ 'going', [ 0, 0 ] ] ], max_wait => $long);
$s->sql("SELECT fleetlog.drop_stream('going')");
is($c->read_fetch->{parts}{'going:0'}{error}, 3, 'a stream that is dropped meanwhile');
my $locker = $s->session;
$locker->query('BEGIN');
$locker->query('LOCK TABLE shut');
my $waiting = client();
$waiting->send_fetch([ [ 'shut', [ 0, 0 ] ] ], max_wait => $long);
is(values_of($c->fetch_one('plain', 0, $tail - 1)), 'round 43', 'a table that is locked keeps nobody else waiting');
$locker->query('ROLLBACK');
is(values_of($waiting->read_fetch->{parts}{'shut:0'}), 'v', 'and its readers as long as it is');
$locker->quit;

# ---- transactions and durability ----

my ($old, $writer) = ($s->session, $s->session);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$old->query('SELECT count(*) FROM plain');
$writer->query('BEGIN');
$writer->query('CREATE TABLE written (n int)');
$writer->query('SELECT pg_current_xact_id()');
$c->send_fetch([ [ 'plain', [ 0, $tail ] ] ], max_wait => $long);
$s->sql("SELECT fleetlog.append('plain', 'k', 'meanwhile')");
is(values_of($c->read_fetch->{parts}{'plain:0'}), 'meanwhile', 'I1: open transactions delay nobody');
$tail++;
$writer->query('ROLLBACK');
$writer->query('BEGIN');
$writer->query("SELECT fleetlog.append('plain', 'k', 'never')");
is($c->fetch_one('plain', 0, $tail)->{hw}, $tail, 'what is not committed is not there');
$writer->query('ROLLBACK');
$_->quit for $old, $writer;
$s->sql("SELECT fleetlog.append('plain', 'k', 'after')");
$p = $c->fetch_one('plain', 0, $tail);
is(values_of($p) . " $p->{hw}", 'after ' . ++$tail, 'what was aborted never was');

$s->stop_points('flusher_before_publish');
my $async = $s->start_sql("SET synchronous_commit = off; SET fleetlog.read_barrier = off; SELECT fleetlog.append('plain', 'k', 'not yet')");
$s->wait_stopped_at('flusher_before_publish');
$p = $c->fetch_one('plain', 0, $tail);
is(join(' ', @$p{qw(error hw lso records)}), "0 $tail $tail ", 'L5: what is committed and not flushed is not there');
is($c->fetch_one('plain', 0, $tail + 1)->{error}, 1, 'L5: nor is its offset');
is($c->list_offsets(1, [ 'plain', 0, -1 ]), "0 $tail -1", 'L5: nor is it the latest');
$c->send_fetch([ [ 'plain', [ 0, $tail ] ] ], max_wait => $long);
$s->stop_points();
is(values_of($c->read_fetch->{parts}{'plain:0'}), 'not yet', 'L5: then it comes at once');
$s->finish_sql($async);
$tail++;

# ---- trims ----

$s->sql("SELECT fleetlog.create_stream('cut', compression => 'none'); INSERT INTO cut (shard, log_offset, ts, key, payload) SELECT 0, i, now(), 'k', 'v' FROM generate_series(0, 99) i");
is($s->sql("SELECT fleetlog.trim_head('cut', 0, 50, NULL)"), '50', 'half of it is trimmed');
$p = $c->fetch_one('cut', 0, 50);
($batch) = batches($p);
is(join(' ', @$p{qw(error start hw)}, $batch->{base} < 50 ? 'whole' : 'cut'), '0 50 100 whole', 'L8: the batch in which the head lies comes whole');
$p = $c->fetch_one('cut', 0, 49);
is(join(' ', @$p{qw(error start hw)}, length $p->{records}), '1 50 100 0', 'L8: below the head: out of range');
kcat_says(sub { kcat('%o ', '-t', 'cut', '-o', 'beginning') }, join('', map { "$_ " } 50 .. 99), 'kcat begins at the head');
kcat_says(sub { kcat('%o ', '-t', 'cut', '-o', '3', '-X', 'auto.offset.reset=earliest') }, join('', map { "$_ " } 50 .. 99), 'and goes there from below it');
$s->stop_points('kafka_before_read');
$c->send_fetch([ [ 'cut', [ 0, 60 ] ] ]);
$s->wait_stopped_at('kafka_before_read');
is($s->sql("SELECT fleetlog.trim_head('cut', 0, 100, NULL)"), '100', 'all of it goes while somebody begins to read');
$s->stop_points();
$p = $c->read_fetch->{parts}{'cut:0'};
is("$p->{error} " . length $p->{records}, '1 0', 'L8: who lost the race is told so');
is($c->fetch_one('cut', 0, 100)->{error}, 0, 'and goes on at the head');

# ---- many ----

$s->sql("SELECT fleetlog.create_stream('wide$_', shards => 256, compression => 'none')") for 1 .. 8;
my @wide = map { my $i = $_; [ "wide$i", map { [ $_, 0 ] } 0 .. 255 ] } 1 .. 8;
$answer = $c->fetch(\@wide);
is(scalar(grep { $answer->{parts}{$_}{error} == 0 } @{ $answer->{order} }), 2048, 'I7: two thousand partitions at once');
$c->send_fetch(\@wide, max_wait => $long);
$s->sql("SELECT fleetlog.append('wide5', 'k', 'found', NULL, 200)");
$answer = $c->read_fetch;
is(join(' ', map { "$_=" . values_of($answer->{parts}{$_}) } grep { length $answer->{parts}{$_}{records} } @{ $answer->{order} }), 'wide5:200=found', 'one of them wakes the reader of all');

$s->sql("SELECT fleetlog.create_stream('many'); INSERT INTO many (shard, log_offset, ts, key, payload) SELECT 0, i, now(), NULL, convert_to(lpad(i::text, 100), 'UTF8') FROM generate_series(0, 99999) i");
kcat_says(
    sub { kcat("%o %s\n", '-t', 'many', '-o', 'beginning') =~ s/\s+\z//r },
    sub { $s->sql("SELECT string_agg(log_offset || ' ' || fleetlog.text(payload) || E'\\n', '' ORDER BY log_offset) FROM many") =~ s/\s+\z//r },
    'I3: a hundred thousand records, each of them');
my ($read, $answers) = (0, 0);
while ($read < 100_000)
{
    my $got = $c->fetch_one('many', 0, $read);
    last if ++$answers > 1000 || $got->{records} eq '';
    my ($base, $last) = (0, -1);
    for (my $at = 0; $at < length $got->{records}; $at += 12 + unpack 'N', substr $got->{records}, $at + 8, 4)
    {
        ($base, $last) = (unpack('q>', substr $got->{records}, $at, 8), unpack('N', substr $got->{records}, $at + 23, 4));
        die "a hole before $base" if $base > $read;
        $read = $base + $last + 1;
    }
}
is($read, 100_000, 'I3: a hundred thousand records by single requests');

# ---- groups ----

$s->sql("SELECT fleetlog.create_stream('work', shards => 3); SELECT fleetlog.append('work', 'k' || i, convert_to('job ' || i, 'UTF8'), NULL, i % 3) FROM generate_series(1, 30) i");
sub group
{
    my ($count) = @_;
    my ($text, $err) = run_command([ 'timeout', '120', 'kcat', '-b', "127.0.0.1:$port", '-q', '-G', 'workers', '-c', $count, '-f', "%s\n", '-X', 'auto.offset.reset=earliest', 'work' ]);
    return split /\n/, $text;
}
SKIP:
{
    skip 'Produce is not served, or kcat not here', 2 unless $librdkafka;
    my @first = group(12);
    is(scalar(@first), 12, 'a group reads twelve');
    $s->wait_for("SELECT sum(log_offset) = 12 FROM fleetlog.consumer_position WHERE consumer = 'workers'", 't', 'its positions');
    my @second = group(18);
    is(join(' ', sort { $a <=> $b } map { /(\d+)/ } @first, @second), join(' ', 1 .. 30), 'and goes on where it was: each record once');
}

is($s->crashes, '', 'nothing has crashed');
done_testing();
