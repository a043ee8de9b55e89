# K2-K5, P1, R2: Produce. What real and hand-made requests write is what SQL, MQTT and state tables show; each fault has its code
# and stores nothing; batches lie in the log as they were sent. Cases A1, A9, C8, C9, C10, C13, I9, I11, I12.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch record produce);

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_produce', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.kafka_max_request = 4MB
fleetlog.allow_anonymous = on
CONF
$s->sql("SELECT fleetlog.create_stream('one'), fleetlog.create_stream('four', shards => 4)");
$s->sql("SELECT fleetlog.create_stream('dated', timestamp_type => 'create'), fleetlog.create_stream('small', max_record_bytes => 100)");
$s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');

my $now = time * 1000;
my $c = FleetlogTest::Kafka->connect($port);

sub rows { return $s->sql("SELECT count(*) FROM $_[0]"); }

# ---- one batch, in every version ----

for my $version (3 .. 11)
{
    my ($r) = produce($c, $version, 1, [ 'one', 0, batch(records => [ record('k', "v$version", time => 5) ]) ]);

    is("$r->{error} $r->{offset}", '0 ' . ($version - 3), "version $version");
    cmp_ok(abs($r->{time} - $now), '<', 60000, 'C9, C10: the append time is told, and is of today');
}
is($s->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ',' ORDER BY log_offset) FROM one"), join(',', map { "v$_" } 3 .. 11), 'SQL sees them');
is($s->sql("SELECT count(*) FROM one WHERE created = '1970-01-01 00:00:00.005+00' AND ts > now() - interval '1 minute' AND tenant IS NULL AND device IS NULL"), '9', 'with their own times and ours');

# ---- what a record may be ----

my @odd = (
    record("\xff\x00k", undef, headers => [ [ 'a', '1' ], [ 'a', undef ], [ 'a', '' ], [ 'fl.tenant', 'forged' ], [ 'fl.topic', 'forged' ] ]),
    record('', ''), record(undef, "\x00\xff"));
my ($r) = produce($c, 9, -1, [ 'dated', 0, batch(records => \@odd, base_time => 1_700_000_000_000) ]);
is("$r->{error} $r->{time}", '0 -1', 'a stream whose times are the records\' own tells none');
is($s->sql(q{SELECT string_agg(concat_ws('|', coalesce(key, '-'), coalesce(key_bytes::text, '-'), coalesce(payload::text, '-'), coalesce(tenant, '-'), coalesce((SELECT string_agg(h.name || '=' || coalesce(h.value::text, 'NULL') || CASE WHEN h.reserved THEN '!' ELSE '' END, ',' ORDER BY h.ordinal) FROM fleetlog.headers_array(headers) h), '-')), ' ' ORDER BY log_offset) FROM dated}),
    q{-|\xff006b|-|-|a=\x31,a=NULL,a=\x,fl.tenant=\x666f72676564,fl.topic=\x666f72676564 |-|\x|-|- -|-|\x00ff|-|-},
    'a key that is no text, a tombstone, repeated and NULL headers, names that nobody may claim');

# ---- faults ----

my %faults = (
    'I12: a flipped byte' => [ sub { my $b = batch(records => [ record('k', 'v') ]); substr($b, 68, 1) ^= "\1"; $b }, 2 ],
    'cut short' => [ sub { substr batch(records => [ record('k', 'v') ]), 0, -1 }, 2 ],
    'nothing' => [ sub { '' }, 87 ],
    'C13: two batches' => [ sub { batch(records => [ record('k', 'v') ]) x 2 }, 87 ],
    'a count that is wrong' => [ sub { batch(records => [ record('k', 'v') ], count => 2) }, 87 ],
    'C13: deltas that are wrong' => [ sub { batch(records => [ record('k', 'v', delta => 1) ]) }, 87 ],
    'a control batch' => [ sub { batch(records => [ record('k', 'v') ], attributes => 0x20) }, 87 ],
    'an append time of its own' => [ sub { batch(records => [ record('k', 'v') ], attributes => 0x08) }, 32 ],
    'a time beyond all' => [ sub { batch(records => [ record('k', 'v') ], base_time => 9223372036854775807) }, 32 ],
    'a time before all' => [ sub { batch(records => [ record('k', 'v') ], base_time => -2) }, 32 ],
    'an unknown codec' => [ sub { batch(records => [ record('k', 'v') ], attributes => 5) }, 76 ],
    'what is not gzip' => [ sub { batch(records => [ record('k', 'v') ], attributes => 1) }, 87 ],
    'a header name that is no text' => [ sub { batch(records => [ record('k', 'v', headers => [ [ "\xff", '' ] ]) ]) }, 87 ],
    'I9: message format 1' => [ sub { my $b = batch(records => [ record('k', 'v') ]); substr($b, 16, 1) = "\1"; $b }, 87 ],
    'a record that is too large' => [ sub { batch(records => [ record('k', 'x' x 1100000) ]) }, 10 ],
    'I11: a bomb' => [ sub { require IO::Compress::Gzip; my $in = record('k', 'x' x 5_000_000)->(0); my $out; IO::Compress::Gzip::gzip(\$in, \$out); batch(raw => $out, count => 1, attributes => 1) }, 10 ],
    'a batch that is too large' => [ sub { batch(records => [ map { record('k', 'x' x 500_000) } 1 .. 5 ]) }, 10 ],
    'a producer id without a sequence' => [ sub { batch(records => [ record('k', 'v') ], producer => [ 5, 0, -1 ]) }, 87 ],
    'part of a transaction' => [ sub { batch(records => [ record('k', 'v') ], attributes => 0x10, producer => [ 5, 0, 0 ]) }, 53 ]);
my $before = rows('one');
for my $what (sort keys %faults)
{
    my ($r) = produce($c, 9, 1, [ 'one', 0, $faults{$what}[0]->() ]);

    is("$r->{error} $r->{offset}", "$faults{$what}[1] -1", $what);
}
is(rows('one'), $before, 'nothing of it is stored');
($r) = produce($c, 9, 1, [ 'one', 0, batch(records => [ record('a', 'b'), record('k', 'v', headers => [ [ "\xff", '' ] ]) ]) ]);
is("$r->{record} " . (length($r->{message}) > 5 ? 'told' : ''), '1 told', 'the record at fault is named');
is((produce($c, 9, 1, [ 'small', 0, batch(records => [ record('k', 'x' x 101) ]) ]))[0]{error}, 10, "the stream's own limit");
is((produce($c, 6, 1, [ 'one', 0, batch(records => [ record('k', 'v') ], attributes => 4) ]))[0]{error}, 87, 'what is not zstd');
is((produce($c, 9, 2, [ 'one', 0, batch(records => [ record('k', 'v') ]) ]))[0]{error}, 21, 'acks that do not exist');
is((produce($c, 9, 1, [ 'one', 0, batch(records => [ record('k', 'v') ]) ], txn => 'mine'))[0]{error}, 53, 'a transaction');

# Each partition for itself.
my @mixed = produce($c, 9, 1,
    [ 'four', 0, batch(records => [ record(undef, 'a') ]) ], [ 'four', 4, batch(records => [ record(undef, 'b') ]) ],
    [ 'nothere', 0, batch(records => [ record(undef, 'c') ]) ], [ 'four', 1, 'garbage' ], [ 'four', 2, batch(records => [ record(undef, 'd') ]) ]);
is_deeply([ map { $_->{error} } @mixed ], [ 0, 3, 3, 2, 0 ], 'partitions have their errors for themselves');
is(rows('four'), '2', 'and the good ones are written');
for my $version (0 .. 2)
{
    my $old = FleetlogTest::Kafka->connect($port);

    $old->request(0, $version, pack('n N N', 1, 1000, 0));
    ok($old->is_closed, "version $version, which is announced for librdkafka's sake, is not served");
}

# ---- pipelining, acks=0 ----

my @ids = map { FleetlogTest::KafkaBatch::send_produce($c, 9, 1, [ 'one', 0, batch(records => [ record('p', "p$_") ]) ]) } 1 .. 200;
is(join(' ', map { ($c->answer)[0] } @ids), join(' ', @ids), 'many in flight are answered in order');
is($s->sql("SELECT string_agg(convert_from(payload, 'UTF8'), ',' ORDER BY log_offset) FROM one WHERE key = 'p'"), join(',', map { "p$_" } 1 .. 200), 'and written in order');
FleetlogTest::KafkaBatch::send_produce($c, 9, 0, [ 'one', 0, batch(records => [ record('zero', "z$_") ]) ]) for 1 .. 20;
my $id = $c->request(3, 1, pack('N', 0));
is(($c->answer)[0], $id, 'A9: acks=0 is not answered');
is($s->sql("SELECT count(*) FROM one WHERE key = 'zero'"), '20', 'and stored');
FleetlogTest::KafkaBatch::send_produce($c, 9, 0, [ 'nothere', 0, batch(records => [ record('zero', 'z') ]) ]);
ok($c->is_closed, 'an error there closes the connection');

# ---- byte for byte ----

$c = FleetlogTest::Kafka->connect($port);
my $sent = batch(records => [ record('b', 'byte' x 20, headers => [ [ 'h', 'x' ] ]), record(undef, undef) ], base_time => 1_700_000_000_000, base_offset => 77, epoch => 9);
($r) = produce($c, 9, 1, [ 'dated', 0, $sent ]);
my $data = $s->{node}->data_dir;
my $path = $s->sql("SELECT pg_relation_filepath(segment) FROM fleetlog._segments('dated'::regclass) WHERE shard = 0 ORDER BY 1 LIMIT 1");
$s->sql('CHECKPOINT');
my $bytes = PostgreSQL::Test::Utils::slurp_file("$data/$path");
cmp_ok(index($bytes, substr $sent, 16), '>', 0, 'K5: from its magic on the batch lies in the log as it was sent');

# C8: a producer that leaves the max timestamp out.
$sent = batch(records => [ record('t', '1', time => 5), record('t', '2', time => 9), record('t', '3', time => 7) ], base_time => 1_700_000_000_000, max_time => -1);
($r) = produce($c, 9, 1, [ 'dated', 0, $sent ]);
is($r->{error}, 0, 'C8: a max timestamp that was left out');
is($s->sql("SELECT extract(epoch FROM max(created)) * 1000 FROM dated WHERE key = 't'"), '1700000000009.000000', 'is found');
$s->sql('CHECKPOINT');
cmp_ok(index(PostgreSQL::Test::Utils::slurp_file("$data/$path"), pack('q> q>', 1_700_000_000_000, 1_700_000_000_009)), '>', 0, 'and put right');
is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('dated')"), 't', 'the log is sound');

# ---- across the end of a segment ----

$s->sql("SELECT fleetlog.create_stream('narrow', segment_bytes => 1)");
my $n = 0;
for my $codec (0 .. 4)
{
    next if $codec > 1; # gzip is at hand everywhere
    my @records = map { record("s$n", 'n' . $n++) } 1 .. 1500;
    my $raw = join '', map { $records[$_]->($_) } 0 .. $#records;
    my $packed = $raw;

    if ($codec == 1) { require IO::Compress::Gzip; IO::Compress::Gzip::gzip(\$raw, \$packed); }
    ($r) = produce($c, 9, 1, [ 'narrow', 0, batch(raw => $packed, count => 1500, attributes => $codec) ]);
    is("$r->{error} $r->{offset}", '0 ' . 1500 * $codec, "1500 records at once, codec $codec");
}
cmp_ok($s->sql("SELECT count(*) FROM fleetlog._segments('narrow'::regclass)"), '>', 1, 'more than a segment takes');
is($s->sql("SELECT count(*) FROM narrow WHERE convert_from(payload, 'UTF8') = 'n' || log_offset AND key = 's' || log_offset"), '3000', 'are all there, in order');
is($s->sql("SELECT bool_and(ok) FROM fleetlog.verify('narrow')"), 't', 'and sound');

# ---- keys and shards ----

my $murmur = $s->sql("SELECT string_agg(fleetlog._partition(convert_to('key' || i, 'UTF8'), 4)::text, '' ORDER BY i) FROM generate_series(0, 9) i");
is((produce($c, 9, 1, [ 'four', substr($murmur, 0, 1), batch(records => [ record('key0', 'right') ]) ]))[0]{error}, 0, 'a record on its own shard');
is($s->sql("SELECT sum(off_key_records) FROM fleetlog.stat_stream WHERE stream = 'four'::regclass"), '0', 'is not counted');
produce($c, 9, 1, [ 'four', (substr($murmur, 0, 1) + 1) % 4, batch(records => [ record('key0', 'wrong'), record(undef, 'x') ]) ]);
is($s->sql("SELECT sum(off_key_records) FROM fleetlog.stat_stream WHERE stream = 'four'::regclass"), '1', 'P1: one on another shard is');

is($s->crashes, '', 'nothing has crashed');
done_testing();
