# Issue 6, K1, K2, K5, P1, S2: clients of Kafka that others wrote, as Debian has them: kcat, confluent-kafka, kafka-python.  What
# they write and read is the same byte for byte; devices, SQL and Kafka share keys, shards and order; tombstones clear state.
# Others, from other registries, are in script/interop.  Case A1.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use JSON::PP ();
use FleetlogTest;
use FleetlogTest::KafkaFetch;

sub has { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH}; }
plan skip_all => 'kcat is not here' unless has('kcat');

my $source = $ENV{FLEETLOG_SOURCE} // '.';
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_clients', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.kafka_rebalance_delay = 0
fleetlog.kafka_auto_create_topics = on
fleetlog.kafka_num_partitions = 4
CONF
$s->fleet(devices => 1, shards => 4, stream => 'readings');
$s->sql(<<'SQL');
CREATE ROLE boss LOGIN PASSWORD 'pw-boss' IN ROLE fleetlog_admin;
GRANT CREATE ON SCHEMA public TO boss;
GRANT SELECT, INSERT ON readings TO boss;
SELECT fleetlog.create_state('now');
SELECT fleetlog.unmount('acme/');
SELECT fleetlog.mount('acme/', 'readings', state => 'now');
SQL
$s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');

my @login = ('-X', 'security.protocol=sasl_plaintext', '-X', 'sasl.mechanisms=SCRAM-SHA-256', '-X', 'sasl.username=boss', '-X', 'sasl.password=pw-boss');
my $json = JSON::PP->new->canonical->ascii;

# Runs a client to its end: what it printed.  Nothing below makes sense when one fails.
sub run
{
    my ($in, @command) = @_;
    my ($out, $err) = ('', '');

    IPC::Run::run([ 'timeout', $FleetlogTest::TIMEOUT, @command ], '<', \$in, '>', \$out, '2>', \$err) or BAIL_OUT("@command[0 .. 3]: " . substr($err, -300) =~ s/\n/ /gr);
    return $out;
}

sub kcat { my ($in, @args) = @_; return run($in, 'kcat', '-b', "127.0.0.1:$port", @login, @args); }
sub produce { my ($in, @args) = @_; return kcat($in, '-P', '-X', 'topic.partitioner=murmur2_random', @args); }
sub consume { my (@args) = @_; return kcat('', '-C', '-q', '-e', '-o', 'beginning', @args); }
sub python { my ($client, $in, $what, @args) = @_; return run($in, '/usr/bin/python3', '-B', "$source/test/interop/kafka/client.py", $client, $what, "127.0.0.1:$port", 'boss', 'pw-boss', @args); }
sub lines { return map { $json->decode($_) } split /\n/, $_[0]; }
sub python_records { my ($client, $topic, $count) = @_; return grep { exists $_->{offset} } lines(python($client, '', 'consume', $topic, "all-of-$topic-$client", $count)); }
my @python = grep { (my $module = $_) =~ s/^(?:kafka-python|confluent)$/{ 'kafka-python' => 'kafka', confluent => 'confluent_kafka' }->{$_}/e; !system("/usr/bin/python3 -c 'import $module' 2>/dev/null") } 'confluent', 'kafka-python';
my %about = map { $_ => $json->decode(run('', '/usr/bin/python3', '-B', "$source/test/interop/kafka/client.py", $_, 'about')) } @python;
note('clients: ' . join ', ', 'kcat', map { "$_ $about{$_}{version}" } @python);

# ---- compression: what is sent, what lies in the log, what is read ----

my $all_bytes = join('', map { chr } 0 .. 255) x 40;
my $file = PostgreSQL::Test::Utils::tempdir() . '/payload';
{ open my $f, '>:raw', $file or die $!; print $f $all_bytes; close $f; }
my %codec = (none => 0, gzip => 1, snappy => 2, lz4 => 3, zstd => 4);
for my $name (sort keys %codec)
{
    my $text = join '', map { "k$_:$name line $_, and again: line $_\n" } 1 .. 300;

    produce($text, '-t', "c-$name", '-p', 0, '-z', $name, '-K', ':', '-X', 'linger.ms=100');
    is(consume('-t', "c-$name", '-p', 0, '-f', "%k:%s\n"), $text, "kcat -z $name: read as it was written");
    is($s->sql("SELECT string_agg(key || ':' || fleetlog.text(payload) || '.', E'\n' ORDER BY log_offset) FROM \"c-$name\"") . "\n", $text =~ s/$/./gmr =~ s/\.\z//r, 'and by SQL');
    my $c = FleetlogTest::KafkaFetch->connect($port);
    $c->log_in('boss', 'pw-boss');
    my @batches = FleetlogTest::KafkaFetch::batches($c->fetch_one("c-$name", 0, 0)->{records});
    is(join(' ', map { $_->{attributes} & 7 } @batches), join(' ', ($codec{$name}) x @batches), "A1: it lies in the log as $name");
    produce('', '-t', "b-$name", '-p', 1, '-z', $name, '-k', "\xff\xfe\xc3", $file);
    my $read = consume('-t', "b-$name", '-p', 1, '-f', '%k|%s');
    ok($read eq "\xff\xfe\xc3|$all_bytes", 'all bytes, and a key that is no text') or diag(length $read);
}

# ---- odd records, from each client to each other and to SQL ----

my @odd = (
    { key => 'fffec3', value => undef, headers => [ [ 'a', '01' ], [ 'a', '02' ], [ 'b', '' ] ], time => 1_700_000_000_123 },
    { key => '', value => '', headers => [] },
    { key => '00', value => '00ff', headers => [ [ "\x{e9}\x{20ac}", 'fffe' ], [ 'fl.tenant', '78' ] ] },
    { key => undef, value => '6e6f206b6579', headers => [], partition => 2 });
for my $client (@python)
{
    my @sent = !$about{$client}{null_header} ? @odd : (@odd, { key => '68', value => '76', headers => [ [ 'n', undef ], [ 'n', '31' ], [ 'n', undef ] ] });
    my $topic = "odd-$client";

    my @codecs = @{ $about{$client}{codecs} };

    for my $name (@codecs)
    {
        is(scalar(lines(python($client, join('', map { $json->encode($_) . "\n" } @sent), 'produce', $topic, $name, 'no'))), scalar @sent, "$client writes, $name");
    }
    my $expected = sub { my ($bytes) = @_; return defined $bytes ? $bytes : 'NULL'; };
    my $say = sub { my ($r) = @_; return join ' ', $expected->($r->{key}), $expected->($r->{value}), map { "$_->[0]=" . $expected->($_->[1]) } @{ $r->{headers} }; };
    my $want = join "\n", sort map { ($say->($_)) x @codecs } @sent;

    for my $reader (@python)
    {
        my @read = python_records($reader, $topic, @codecs * @sent);

        is(join("\n", sort map { $say->($_) } @read), $want, "$reader reads what $client wrote");
        is(scalar(grep { $_->{time} == 1_700_000_000_123 } @read), scalar @codecs, 'with its time');
    }
    my $stored = $s->sql(qq{SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM (SELECT concat_ws(' ', coalesce(encode(coalesce(key_bytes, convert_to(key, 'UTF8')), 'hex'), 'NULL'), coalesce(encode(payload, 'hex'), 'NULL'),
        (SELECT string_agg(h.name || '=' || coalesce(encode(h.value, 'hex'), 'NULL'), ' ' ORDER BY h.ordinal) FROM fleetlog.headers_array(headers) h WHERE NOT h.reserved)) AS line FROM "$topic") t});
    utf8::decode($stored);
    is($stored, $want, 'SQL too');
}

# kcat: repeated and NULL headers, a NULL payload.
produce("k:\n", '-t', 'tomb', '-p', 0, '-Z', '-K', ':', '-H', 'a=1', '-H', 'a=2', '-H', 'none');
is(consume('-t', 'tomb', '-f', '%k %S %h'), 'k -1 a=1,a=2,none=NULL', 'kcat: NULL payload, repeated and NULL headers');

# ---- two doors: one key, one shard, one order ----

my $device = $s->device('d1');
my $key = 'acme/d1/temperature';
my @writers = (
    sub { $device->publish_acked($key, $_[0]) == 0 or die },
    sub { produce("$key|$_[0]\n", '-t', 'readings', '-K', '|') },
    sub { $s->sql("SELECT fleetlog.append('readings', '$key', convert_to('$_[0]', 'UTF8'))") },
    map { my $client = $_; sub { python($client, $json->encode({ key => unpack('H*', $key), value => unpack 'H*', $_[0] }) . "\n", 'produce', 'readings', 'none', 'no') } } @python);
my @order;
for my $round (1 .. 3)
{
    for my $w (0 .. $#writers) { $writers[$w]->("$round-$w"); push @order, "$round-$w"; }
}
is($s->sql("SELECT count(DISTINCT shard), string_agg(fleetlog.text(payload), ' ' ORDER BY log_offset) FROM readings WHERE key = '$key'"), "1|@order", 'MQTT, kcat, SQL and Python write a key into one shard in one order');
is(consume('-t', 'readings', '-f', '%s '), join('', map { "$_ " } @order), 'which is what kcat reads');
is($s->sql("SELECT sum(off_key_records) FROM fleetlog.stat_stream WHERE stream = 'readings'::regclass"), '0', 'none is off its shard');

# ---- from a device to Kafka, and back ----

my $raw = "\x00\xff\xfe reading \x80";
$device->publish_acked('acme/d1/raw', $raw, properties => [ [ 38, 'unit', 'C' ], [ 38, 'unit', 'K' ], [ 3, 'application/octet-stream' ] ]);
my ($offset, $ms, $headers) = split /\|/, $s->sql(q{SELECT log_offset, floor(extract(epoch FROM ts) * 1000)::bigint, (SELECT string_agg(h.name || '=' || encode(h.value, 'hex'), ' ' ORDER BY h.ordinal) FROM fleetlog.headers_array(headers) h) FROM readings WHERE key = 'acme/d1/raw'});
like($headers, qr/unit=43 unit=4b/, 'the reading has the properties of the device');
for my $reader (@python)
{
    my ($r) = grep { $_->{key} eq unpack 'H*', 'acme/d1/raw' } python_records($reader, 'readings', 1 + @order);
    my %of_ours = map { $_ => 1 } qw(fl.tenant fl.device);

    is("$r->{value} $r->{time} $r->{offset}", unpack('H*', $raw) . " $ms $offset", "$reader: payload, time and place of a device's reading");
    is(join(' ', map { "$_->[0]=$_->[1]" } grep { !$of_ours{ $_->[0] } } @{ $r->{headers} }), $headers, 'its headers');
    is(join(' ', map { pack 'H*', $_->[1] } grep { $of_ours{ $_->[0] } } @{ $r->{headers} }), 'acme d1', 'and who sent it');
}

my $sub = $s->device('d1', client_id => 'sub');
$sub->subscribe([ [ 'acme/d1/back/#', 1 ] ]);
{ open my $f, '>:raw', $file or die $!; print $f $raw; close $f; }
produce('', '-t', 'readings', '-k', 'acme/d1/back/1', '-H', 'unit=F', '-H', 'unit=C', '-z', 'zstd', $file);
my ($m) = $sub->messages(1);
is("$m->{topic} $m->{payload}", "acme/d1/back/1 $raw", 'a Kafka record at a subscriber, byte for byte');
is(join(' ', map { "$_->[1]=$_->[2]" } grep { $_->[0] == 38 && $_->[1] eq 'unit' } @{ $m->{properties} }), 'unit=F unit=C', 'its headers are user properties');

# ---- tombstones ----

sub retained
{
    my $late = $s->device('d1', client_id => 'late');
    my @got;

    # What is in force comes before what is published behind it.
    $late->subscribe([ [ 'acme/d1/kept', 1 ], [ 'acme/d1/end', 0 ] ]);
    $device->publish_acked('acme/d1/turn', $_) for 1 .. 3;
    $device->publish_acked('acme/d1/end', 'end');
    while (1) { my ($got) = $late->messages(1); die 'no end' unless $got; last if $got->{payload} eq 'end'; push @got, "$got->{payload}/$got->{retain}"; }
    $late->disconnect;
    return "@got";
}
$device->publish_acked('acme/d1/kept', 'value', retain => 1);
is($s->sql("SELECT fleetlog.text(payload) FROM now WHERE key = 'acme/d1/kept'"), 'value', 'a value is kept');
is(retained(), 'value/1', 'and retained');
$sub->subscribe([ [ 'acme/d1/kept', 1 ] ]);
$sub->messages(1);
produce("acme/d1/kept|\n", '-t', 'readings', '-Z', '-K', '|');
$s->wait_for("SELECT count(*) FROM now WHERE key = 'acme/d1/kept' AND payload IS NOT NULL", '0', 'the tombstone to clear the state');
($m) = $sub->messages(1);
is("$m->{topic}=$m->{payload}", 'acme/d1/kept=', 'a tombstone by kcat: a subscriber is told');
is(retained(), '', 'and nothing is retained any more');

# ---- administration and groups by the clients of Python ----

for my $client (@python)
{
    my ($did) = lines(python($client, '', 'admin', "admin-$client"));

    is("$did->{partitions} @{ $did->{retention} } $did->{gone}", '3 3600000 7200000 1', "$client: a topic is made, grown, configured and deleted");
    ok((grep { $_ eq "all-of-readings-$client" } @{ $did->{groups} }), 'groups are listed');
    is($s->sql("SELECT sum(log_offset) FROM fleetlog.consumer_position WHERE consumer = 'all-of-readings-$client'"), 1 + @order, 'its position is where it stopped');
}

is($s->crashes, '', 'nothing has crashed');
done_testing();
