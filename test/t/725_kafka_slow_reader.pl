# O3, O5, K2: what clients may cost who ask for much and read nothing: the door's memory stays within fleetlog.buffer_memory, devices
# are served, whoever reads gets everything, and the slow are closed when their memory is wanted, held otherwise.  Clients
# that send a byte at a time.  Counts of 2^31 in each array of each request in each version that is served.
use strict;
use warnings;
use Test::More;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Time::HiRes qw(time usleep);
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch produce record);
use FleetlogTest::KafkaFetch;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $buffer = 24;
my $s = FleetlogTest->new('kafka_slow', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.buffer_memory = ${buffer}MB
fleetlog.kafka_max_fetch = 4MB
fleetlog.workers = 1
CONF
$s->fleet(devices => 2);
$s->sql("SELECT fleetlog.create_stream('big', shards => 4, compression => 'none')");
$s->sql("INSERT INTO big (shard, log_offset, ts, key, payload) SELECT i % 4, i / 4, now(), 'k', convert_to(repeat('x', 20000), 'UTF8') FROM generate_series(0, 3999) i");
my $records = $s->sql('SELECT count(*) FROM big');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the listener');
sub client { return FleetlogTest::KafkaFetch->connect($port); }
my $door = $s->sql("SELECT pid FROM fleetlog.stat_listener WHERE protocol = 'kafka'");
my $mqtt = $s->sql("SELECT pid FROM fleetlog.stat_listener WHERE protocol = 'mqtt'");
# What a process has for itself, and the most that it ever had.
sub resident { my ($pid) = @_; open my $f, '<', "/proc/$pid/status" or return 0; local $/; return <$f> =~ /^RssAnon:\s+(\d+)/m ? $1 : 0; }
sub still_there { my ($what) = @_; is($s->sql("SELECT count(*) FROM fleetlog.stat_listener WHERE pid IN ($door, $mqtt)"), '2', "$what: both doors are the same processes"); return; }

# Where the batches end, by their headers: their checksums are other tests'.
sub end_of
{
    my ($bytes, $end) = @_;

    for (my $at = 0; $at < length $bytes; $at += 12 + unpack 'N', substr $bytes, $at + 8, 4)
    {
        my $base = unpack 'q>', substr $bytes, $at, 8;
        die "a hole before $base" if $base > $end;
        $end = $base + 1 + unpack 'N', substr $bytes, $at + 23, 4;
    }
    return $end;
}

# Reads all of the stream, and says how many records there were.
sub read_all
{
    my ($c) = @_;
    my @at = (0) x 4;
    my ($n, $idle) = (0, 0);

    while ($n < $records && $idle < 1000)
    {
        my $answer = $c->fetch([ [ 'big', map { [ $_, $at[$_] ] } 0 .. 3 ] ], max_wait => 100) or return "closed after $n";
        my $before = $n;
        for my $p (0 .. 3)
        {
            my $end = end_of($answer->{parts}{"big:$p"}{records}, $at[$p]);
            $n += $end - $at[$p];
            $at[$p] = $end;
        }
        $idle++ if $n == $before;
    }
    return $n;
}

# A device publishes at QoS 1 and is subscribed to it: how many are acknowledged, and how many come in order.
my ($from, $to) = map { $s->device('d1', client_id => $_) } qw(d1 reader);
is(($to->subscribe(['acme/d1/#']))[0], 0, 'a subscriber');
my $sent = 0;
sub devices
{
    my ($n) = @_;
    my ($acked, $came) = (0, 0);

    for (1 .. $n / 10)
    {
        $from->publish('acme/d1/t', 'm' . ++$sent, qos => 1) for 1 .. 10;
        for (1 .. 10) { my $p = $from->expect('PUBACK'); $acked++ if $p->{reason} == 0; }
    }
    for my $p ($to->messages($n)) { $came++ if $p->{payload} eq 'm' . ($sent - $n + $came + 1); }
    return "$acked $came";
}
is(devices(50), '50 50', 'devices publish and are delivered to');

# ---- many who ask for everything, again and again, and read nothing ----

# Kernels take some of an answer for whoever does not read; little, if they are told.
sub deaf
{
    my $socket = IO::Socket::INET->new(Proto => 'tcp', Type => Socket::SOCK_STREAM()) or die "socket: $!";
    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, 4096 or die "SO_RCVBUF: $!";
    connect $socket, Socket::pack_sockaddr_in($port, Socket::inet_aton('127.0.0.1')) or die "connect: $!";
    return bless { socket => $socket, in => '', next => 1 }, 'FleetlogTest::KafkaFetch';
}
is(read_all(client()), $records, 'a reader alone gets all');
my $base = resident($door);
my $logged = -s $s->node->logfile;
my $most = 0;
my @deaf;
for my $n (1 .. 60)
{
    push @deaf, deaf();
    $deaf[-1]->send_fetch([ [ 'big', map { [ $_, 0, 0x7fffffff ] } 0 .. 3 ] ], max_bytes => 0x7fffffff) for 1 .. 30;
    my $now = resident($door);
    $most = $now if $now > $most;
}
is(devices(300), '300 300', 'O3: sixty that read nothing: all messages of devices are acknowledged and delivered');
is(read_all(client()), $records, 'O3: whoever reads gets all meanwhile');
for (1 .. 50) { my $now = resident($door); $most = $now if $now > $most; usleep(20_000); }
cmp_ok($most - $base, '<', 2 * $buffer * 1024 + 8192, "O3: fleetlog.buffer_memory holds: $buffer MB, and the door has grown by " . ($most - $base) . ' kB at most');
$s->wait_for_log(qr/it does not read its answers, and the memory for these is used up/, $logged);
pass('who does not read is closed when the memory is wanted, and the log says why');
is(devices(300), '300 300', 'O3: and still all messages of devices');
still_there('readers that do not read');
@deaf = ();
$s->wait_for("SELECT count(*) <= 3 FROM fleetlog.stat_connection", 't', 'their end');

# A few, for whom there is room: they are held, and get all when they do read.
my @slow = map { deaf() } 1 .. 3;
$_->send_fetch([ [ 'big', [ 0, 0 ] ] ], max_bytes => 300_000) for (@slow) x 5;
is(devices(100), '100 100', 'a few slow readers: devices are served');
is(read_all(client()), $records, 'and readers');
my @late;
for my $one (@slow) { for (1 .. 5) { my $a = $one->read_fetch; push @late, $a ? end_of($a->{parts}{'big:0'}{records}, 0) : 'closed'; } }
is(scalar(grep { $_ ne 'closed' && $_ > 0 } @late), 15, 'and they have their answers, each of those they asked for');
@slow = ();

# ---- a byte at a time ----

sub frame { my ($key, $version, $id, $body) = @_; return pack('N/a*', pack('n n N n/a*', $key, $version, $id, 'slow') . $body); }
my $batch = batch(records => [ record('acme/d1/byte', 'by bytes') ]);
my @requests = (frame(18, 0, 1, ''), frame(3, 1, 2, pack('N n/a*', 1, 'telemetry')), frame(0, 7, 3, "\xff\xff" . pack('n N N n/a* N N N/a*', 1, 30000, 1, 'telemetry', 1, 0, $batch)), frame(3, 1, 4, pack('N', 0)));
my @bytes = map { client() } 1 .. 20;
for my $byte (split //, join '', @requests) { $_->send_raw($byte) for @bytes; }
my %ids;
for my $one (@bytes) { $ids{ join ' ', map { ($one->answer)[0] } @requests }++; }
is_deeply(\%ids, { '1 2 3 4' => 20 }, 'twenty that send a byte at a time are answered, each request in its order');
is($s->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = 'by bytes'"), '20', 'and what they have written is there');
is(scalar($to->messages(20)), 20, 'and delivered');
@bytes = ();

# ---- counts that cannot be, in every array of every request ----

# The fields of all requests, by the tables that the codec reads.
my (%fields, %flexible);
for my $file (glob "$ENV{FLEETLOG_SOURCE}/src/wire/kafka/table_*.c")
{
    my $text = PostgreSQL::Test::Utils::slurp_file($file);

    while ($text =~ /FlKafkaField (\w+)_fields\[\] = \{\n(.*?)\n\};/sg)
    {
        my ($struct, $rows) = ($1, $2);
        # Name, type, array?, struct, present; first and last version, of null, tag.
        $fields{$struct} = [ map { { name => $_->[0], type => $_->[1], array => $_->[2] eq 'true', of => $_->[3] =~ s/.*fl_kafka_struct_//r, from => $_->[4], to => $_->[5], tagged => $_->[6] ne 'FL_KAFKA_NO_TAG' } }
              map { my @f = /FL_KAFKA_FIELD\(\w+, \w+, "(\w+)", (\w+), (true|false), ([&\w]+), [^\n]+,\s*(-?\d+), (-?\d+), -?\d+, -?\d+, (\w+),/; die "cannot read: $_" unless @f; \@f } $rows =~ /(FL_KAFKA_FIELD\(.*?\),?)(?=\n\tFL_KAFKA|\z)/sg ];
    }
    $flexible{$1} = $2 while $text =~ /const FlKafkaMessage fl_kafka_(\w+_request) = \{&\w+, \d+, \d+, (\d+)\};/g;
}
my $apis = PostgreSQL::Test::Utils::slurp_file("$ENV{FLEETLOG_SOURCE}/src/wire/kafka/table_apis.c");
my %request = map { $_->[1] => $_->[0] } map { [ /fl_kafka_(\w+_request), &\w+, (\d+),/ ] } $apis =~ /^\t(\{.*\}),$/mg;
my %zero = (FL_KAFKA_BOOL => 1, FL_KAFKA_INT8 => 1, FL_KAFKA_INT16 => 2, FL_KAFKA_UINT16 => 2, FL_KAFKA_INT32 => 4, FL_KAFKA_UINT32 => 4, FL_KAFKA_INT64 => 8, FL_KAFKA_FLOAT64 => 8, FL_KAFKA_UUID => 16);

# Bodies of a struct in which one array has this count: arrays before it are empty, those around it have one element.  Each is a
# list of what leads to it and its count.
sub to_arrays
{
    my ($struct, $version, $compact, $counts) = @_;
    my ($lead, @out) = ('');

    for my $f (grep { !$_->{tagged} && $_->{from} <= $version && $version <= $_->{to} } @{ $fields{$struct} // die "no table of $struct" })
    {
        if ($f->{array})
        {
            push @out, map { $lead . $_ } @$counts;
            push @out, map { $lead . ($compact ? "\2" : pack('N', 1)) . $_ } to_arrays($f->{of}, $version, $compact, $counts) if $f->{type} eq 'FL_KAFKA_STRUCT';
            $lead .= $compact ? "\1" : pack('N', 0);
        }
        elsif ($f->{type} eq 'FL_KAFKA_STRUCT') { push @out, map { $lead . $_ } to_arrays($f->{of}, $version, $compact, $counts); return @out; }
        elsif ($f->{type} eq 'FL_KAFKA_STRING') { $lead .= $compact ? "\2g" : pack('n/a*', 'g'); }
        elsif ($f->{type} eq 'FL_KAFKA_BYTES' || $f->{type} eq 'FL_KAFKA_RECORDS') { $lead .= $compact ? "\1" : pack('N', 0); }
        else { $lead .= "\0" x ($zero{ $f->{type} } // die "unknown type $f->{type}"); }
    }
    return @out;
}

my $c = client();
$c->request(18, 0, '');
my (undef, $versions) = $c->answer;
my ($tried, $served, @kept_open, %without) = (0, 0);
$base = resident($door);
$logged = -s $s->node->logfile;
for my $api (map { [ unpack 'n n n', $_ ] } unpack 'x2 N/(a6)', $versions)
{
    my ($key, $first, $last) = @$api;
    my $name = $request{$key} // die "no request of key $key";
    my $arrays = 0;

    $served++;
    for my $version ($first .. $last)
    {
        next if $key == 0 && $version < 3;
        my $compact = $version >= $flexible{$name};
        for my $body (to_arrays($name, $version, $compact, $compact ? [ "\x80\x80\x80\x80\x08", "\xff\xff\xff\xff\x0f" ] : [ "\x7f\xff\xff\xff", "\x80\0\0\0" ]))
        {
            my $one = client();
            $one->request($key, $version, $body . "\0" x 100, flexible => $compact);
            $tried++;
            $arrays++;
            push @kept_open, "$name $version: " . unpack 'H*', $body unless $one->is_closed;
        }
    }
    $without{$name} = 1 unless $arrays;
}
cmp_ok($tried, '>', 500, 'arrays of all requests');
is("@kept_open[0 .. ($#kept_open < 4 ? $#kept_open : 4)]", '', "$tried counts of 2^31 and more, in each array of $served requests in each version, are each the end of their connection");
is(join(' ', sort keys %without), join(' ', sort grep { exists $without{$_} } qw(api_versions_request find_coordinator_request heartbeat_request sasl_handshake_request sasl_authenticate_request describe_acls_request describe_cluster_request init_producer_id_request list_groups_request)), 'requests that have no array');
cmp_ok(resident($door) - $base, '<', 8192, 'memory is flat: ' . (resident($door) - $base) . ' kB');
is(devices(50), '50 50', 'devices are served');
still_there('counts that cannot be');
is($s->crashes, '', 'nothing has crashed');
done_testing();
