# I4-I6, O3, K4: what a Kafka client may see and do, and what it may cost: rights of roles and devices, those that are given
# and taken while it is connected; before login little is listened to; memory stays flat whatever is announced or claimed,
# and everybody else is served.  Cases A10, H4, I9, and I16 of those who mean harm.
use strict;
use warnings;
use Test::More;
use IO::Select;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch qw(batch produce record);
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_limits', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.connect_timeout = 5s
fleetlog.buffer_memory = 16MB
fleetlog.kafka_rebalance_delay = 0
fleetlog.workers = 1
CONF
$s->fleet(devices => 2);
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('secret', shards => 2);
SELECT fleetlog.create_tenant('small', 'small/', max_connections => 2);
SELECT fleetlog.create_device('d1', 'small', password => 'pw-d1');
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
CREATE ROLE writer LOGIN PASSWORD 'pw-writer';
CREATE ROLE blank LOGIN PASSWORD 'pw-blank';
GRANT SELECT ON telemetry TO dash;
GRANT INSERT ON secret TO writer;
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the listener');

sub client { return FleetlogTest::Kafka->connect($port); }
sub logged_in { my ($user, $password) = @_; my $c = client(); my ($error) = $c->log_in($user, $password // "pw-$user"); is($error, 0, "$user is in"); return $c; }
sub str { return pack('n/a*', $_[0]); }

# Metadata for one topic: its error.
sub error_of
{
    my ($c, $topic) = @_;

    $c->request(3, 1, pack('N', 1) . str($topic));
    my ($id, $answer) = $c->answer or return 'closed';
    return unpack 'n', substr $answer, 4 + 4 + 2 + unpack('n', substr $answer, 8, 2) + 4 + 2 + 4 + 4, 2;
}

# ---- rights of roles ----

my ($dash, $writer, $blank) = map { logged_in($_) } qw(dash writer blank);
is($dash->topics, 'telemetry', 'SELECT makes a topic visible');
is($writer->topics, 'secret', 'so does INSERT');
is($blank->topics, '', 'without a right there is none');
is(error_of($dash, 'secret'), 29, 'asked for by name it is 29');
is(error_of($dash, 'nothing'), 3, 'what is not there is 3');
$s->sql('GRANT SELECT ON secret TO dash');
FleetlogTest::wait_until(sub { $dash->topics eq 'secret telemetry' }, 'a grant to count');
pass('a grant counts for who is connected');
$s->sql('REVOKE SELECT ON secret FROM dash');
FleetlogTest::wait_until(sub { $dash->topics eq 'telemetry' }, 'a revoked grant to count');
pass('and so does its end');
$s->sql('ALTER TABLE telemetry ENABLE ROW LEVEL SECURITY');
FleetlogTest::wait_until(sub { $dash->topics eq '' }, 'row security to count');
pass('I6: a stream whose rows a policy might hide is none of its topics');
$s->sql('ALTER TABLE telemetry DISABLE ROW LEVEL SECURITY');
FleetlogTest::wait_until(sub { $dash->topics eq 'telemetry' }, 'its end');

# ---- reading and writing ----

my %as = map {
    my $c = FleetlogTest::KafkaFetch->connect($port);
    is(($c->log_in($_, 'pw-' . s/.*\///r))[0], 0, "$_ is in");
    $_ => $c
} qw(dash writer blank acme/d1);
sub written { my ($user, $topic) = @_; my ($r) = produce($as{$user}, 9, -1, [ $topic, 0, batch(records => [ record('k', "of $user", headers => [ [ 'fl.tenant', 'acme' ] ]) ]) ]); return $r->{error}; }
is($as{dash}->fetch_one('telemetry', 0, 0)->{error}, 0, 'SELECT is the right to fetch');
is($as{dash}->list_offsets(1, [ 'telemetry', 0, -2 ]), '0 0 -1', 'and to ask for offsets');
is(written('writer', 'secret'), 0, 'INSERT is the right to produce');
is($s->sql("SELECT string_agg(concat_ws('|', fleetlog.text(payload), coalesce(tenant, '-'), coalesce(device, '-')), ',') FROM secret"), 'of writer|-|-', 'a role is no device, whatever it says');
for my $case ([ 'writer', 'secret' ], [ 'blank', 'telemetry' ], [ 'dash', 'secret' ], [ 'acme/d1', 'telemetry' ])
{
    my ($user, $topic) = @$case;

    is($as{$user}->fetch_one($topic, 0, 0)->{error}, 29, "$user does not fetch $topic");
    is($as{$user}->list_offsets(1, [ $topic, 0, -1 ]), '29 -1 -1', "... nor learns its offsets");
    is($as{$user}->epoch_ends(2, [ $topic, 0, 0 ]), '29 -1 -1', '... nor its epochs');
}
is(written(@$_), 29, "$_->[0] does not produce to $_->[1]") for [ 'dash', 'telemetry' ], [ 'blank', 'secret' ], [ 'writer', 'telemetry' ], [ 'acme/d1', 'telemetry' ];
is($s->sql('SELECT count(*) FROM telemetry'), '0', 'nothing of it is stored');
$as{dash}->send_fetch([ [ 'telemetry', [ 0, 0 ] ] ], max_wait => 600_000);
$s->sql('REVOKE SELECT ON telemetry FROM dash');
is($as{dash}->read_fetch->{parts}{'telemetry:0'}{error}, 29, 'who waits for records is told when the right ends');
$s->sql('GRANT SELECT ON telemetry TO dash');
FleetlogTest::wait_until(sub { $dash->topics eq 'telemetry' }, 'the right to be back');

# ---- what is written ----

sub write_to { my ($c, $topic, @records) = @_; return (produce($c, 9, -1, [ $topic, 0, batch(records => [@records]) ]))[0]{error}; }
my $one = logged_in('acme/d1', 'pw-d1');
is($one->topics, 'telemetry', 'I4: a device sees the streams that its topics lie in');
is(write_to($one, 'telemetry', record('acme/d1/temp', '21'), record('acme/d1/x', '22')), 0, 'I4: it writes its own topics');
is($s->sql("SELECT string_agg(concat_ws(' ', key, tenant, device), ', ' ORDER BY log_offset) FROM telemetry"), 'acme/d1/temp acme d1, acme/d1/x acme d1', 'and the records bear who it is');
for my $case ([ "another device's topic", 'acme/d2/temp' ], [ 'a topic of another tenant', 'small/d1/temp' ], [ 'no key', undef ], [ 'no topic', 'acme/d1/#' ], [ 'a command', 'acme/cmd/d1/req/x' ], [ 'a shadow', '$fleetlog/things/d1/shadow/update' ])
{
    my ($what, $key) = @$case;

    is(write_to($one, 'telemetry', record('acme/d1/temp', 'no'), record($key, 'no')), 29, "I4: $what: 29");
}
is($s->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = 'no'"), '0', 'I4: nothing of such a batch is stored');
is(write_to($one, 'secret', record('acme/d1/temp', 'no')), 29, 'nor may it name a stream that its topics do not lie in');

# ---- the role that has written ----

$s->sql(<<'SQL');
SELECT fleetlog.create_stream('notes', shards => 1);
SELECT fleetlog.create_state('notes_now');
SELECT fleetlog.mount('notes/', 'notes', state => 'notes_now', keep => 'last', state_lag => '0');
GRANT INSERT ON notes TO writer;
GRANT SELECT ON notes TO dash;
SELECT pg_create_logical_replication_slot('notes', 'test_decoding');
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_mount WHERE prefix = 'notes/'", '1', 'the mount');
FleetlogTest::wait_until(sub { $as{writer}->topics =~ /notes/ && $dash->topics =~ /notes/ }, 'the topic');
my $reader = $s->raw;
is($reader->login(client_id => 'reader', user => 'dash', password => 'pw-dash')->{reason}, 0, 'a subscriber');
$reader->subscribe([ [ 'notes/#', 1 ] ]);
my @forged = ([ 'fl.role', 'forged' ], [ 'a', undef ]);
is(write_to($as{writer}, 'notes', record('notes/a', 'one', headers => [@forged]), record('notes/b', 'two')), 0, 'a role writes');
sub headers_of { return "(SELECT string_agg(h.name || '=' || coalesce(convert_from(h.value, 'UTF8'), 'NULL') || CASE WHEN h.reserved THEN '!' ELSE '' END, ',' ORDER BY h.ordinal) FROM fleetlog.headers_array(headers) h)"; }
sub shown { my ($from) = @_; return $s->sql("SELECT string_agg(" . headers_of() . ", ' ' ORDER BY key) FROM $from"); }
my $shown = 'fl.role=writer!,fl.role=forged,a=NULL fl.role=writer!';
is(shown('notes'), $shown, 'I5: header fl.role of ours names the role, and one that it claims itself is none of ours');
is($s->sql("SELECT string_agg(headers ->> 'fl.role', ',') FROM notes WHERE key = 'notes/b'"), 'writer', '... as JSON');
is(shown("fleetlog.read('notes', 0, 0)"), $shown, '... in read()');
is(shown("fleetlog.poll('notes', '{}')"), $shown, '... in poll()');
is(shown('notes_now'), $shown, '... in the state table');
is($s->sql("SELECT string_agg(check_name, ',') FROM fleetlog.verify('notes') WHERE NOT ok"), '', '... which agrees with history');
is(shown("fleetlog.watch('notes_now', NULL) WHERE event = 'row'"), $shown, '... for watchers');
like($s->sql(q(SELECT string_agg(data, ' ') FROM pg_logical_slot_get_changes('notes', NULL, NULL))), qr{666c2e726f6c65|fl\.role}, '... in logical decoding');
$s->sql("SELECT pg_drop_replication_slot('notes')");
my ($to_reader) = $reader->messages(1);
is(join(' ', map { join '=', @$_[ 1 .. $#$_ ] } grep { $_->[0] == 38 } @{ $to_reader->{properties} }), 'fl.role=forged', 'an MQTT subscriber gets what the producer has written, as of any role');
is(join(',', map { join '=', map { $_ // 'NULL' } @$_ } @{ (FleetlogTest::KafkaFetch::batches($as{dash}->fetch_one("notes", 0, 0)->{records}))[0]{records}[0]{headers} }), 'fl.role=forged,a=NULL', 'K5: a Kafka consumer gets the batch as it was sent');
is(write_to($as{writer}, 'notes', record('notes/c', 'many', headers => [ ([ 'h', '' ]) x 1023 ])), 0, 'there is room for 1023 headers beside it');
is($s->sql("SELECT count(*) FROM notes, fleetlog.headers_array(headers) WHERE key = 'notes/c'"), '1024', '... all of which are read');
is(write_to($as{writer}, 'notes', record('notes/c', 'more', headers => [ ([ 'h', '' ]) x 1024 ])), 87, '... and for no more');
$reader->disconnect(0);
$s->sql('REVOKE SELECT ON notes FROM dash');
FleetlogTest::wait_until(sub { $dash->topics eq 'telemetry' }, 'the right to end');

# ---- groups ----

sub member
{
    my ($user, $password) = @_;
    my $m = FleetlogTest::KafkaGroup->open($port);
    my $k = bless { socket => $m->{socket}, in => '', next => 1000 }, 'FleetlogTest::Kafka';

    is(($k->log_in($user, $password))[0], 0, "$user is in");
    return $m;
}
my $x = member('dash', 'pw-dash');
is($x->join_group, 0, 'a role joins a group');
is($x->sync({ $x->{id} => '' }), 0, 'and leads it');
is(member('writer', 'pw-writer')->join_group, 30, "another role's group: 30");
is(join(',', $x->commit([ 'telemetry', 0, 5 ], [ 'secret', 0, 5 ])), '0,29', 'it commits for what it may read only');
is(member('acme/d1', 'pw-d1')->join_group, 30, 'a device has no groups: 30');

# ---- how many may connect ----

my @small = map { logged_in('small/d1', 'pw-d1') } 1, 2;
my $third = client();
my @answer = $third->log_in('small/d1', 'pw-d1');
is("$answer[0] $answer[1]", '58 The server has as many connections as it may have', "a tenant's limit on connections");
ok($third->is_closed, '... and the end');
@small = ();
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE tenant = 'small'", '0', 'their end');
is((client()->log_in('small/d1', 'pw-d1'))[0], 0, 'there is room again');
# ---- what views show ----

my $c = client();
$c->request(18, 3, "\x0Dkcat-of-test\x04" . '1.7' . "\0", flexible => 1);
$c->answer;
is(($c->log_in('dash', 'pw-dash'))[0], 0, 'a client that tells what it is');
$c->topics;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE software LIKE '%/1.7' AND packets_in >= 4 AND packets_out >= 4 AND bytes_in > 100 AND bytes_out > 100
	AND role = 'dash' AND protocol = 'kafka' AND published IS NULL AND peer LIKE '127.0.0.1:%'", '1', 'its row');
pass('stat_connection tells software, requests, answers and bytes');
is($s->sql("SELECT open >= 1 AND accepted > 5 FROM fleetlog.stat_listener WHERE protocol = 'kafka'"), 't', 'stat_listener counts them');

# ---- before login ----

my $logged = -s $s->node->logfile;
$c = client();
$c->send_raw(pack('H*', '16030102000100') . 'x' x 512);
ok($c->is_closed, 'who speaks TLS at the wrong port');
$s->wait_for_log(qr/it speaks TLS, and this listener does not/, $logged);
pass('... is told of in the log');
$c = client();
$c->handshake('PLAIN');
is(($c->authenticate('x' x (65536 - 14 - 4)))[0], 58, '64 kB may be said before login');
$c = client();
$c->send_raw(pack('N', 65537) . 'x' x 100);
ok($c->is_closed, 'one byte more is the end');
my @served = grep { $_ != 17 && $_ != 18 && $_ != 36 } 0 .. 100;
my @open = map { my $one = client(); $one->request($_, 4, "\0" x 64, flexible => 1); $one } @served;
is(scalar(grep { !$_->is_closed } @open), 0, 'only ApiVersions, SaslHandshake and SaslAuthenticate are answered before login');
$s->wait_for_log(qr/connection of a Kafka client at \S+ is closed: a request before login; the client's security.protocol must be/);
pass('... and the log says what to do');
my @silent = map { client() } 1 .. 3;
$silent[1]->handshake('PLAIN');
$silent[2]->send_raw("\0");
ok((!grep { !$_->is_closed } @silent), 'who has not logged in within connect_timeout is closed');
# Nor does he win time who sends a byte now and then.
$c = client();
$c->send_raw(pack('N n n N', 60000, 17, 1, 1));
FleetlogTest::wait_until(sub { IO::Select->new($c->{socket})->can_read(0.2) || !$c->send_raw('x') }, 'the end of who sends a byte at a time');
ok($c->is_closed, 'nor is he let be who sends a byte at a time');

# A crowd that logs in at once, more than the authentication worker takes: everybody gets the answer that is his.
@open = @silent = ();
my @many = map { client() } 1 .. 700;
for my $i (0 .. $#many)
{
    $many[$i]->request(17, 1, str('PLAIN'));
    $many[$i]->request(36, 1, pack('N/a*', "\0acme/d" . ($i % 2 + 1) . "\0" . ($i % 3 ? "wrong $i" : 'pw-d' . ($i % 2 + 1))));
}
my %verdicts;
for my $i (0 .. $#many)
{
    $many[$i]->answer;
    my ($id, $answer) = $many[$i]->answer;
    $verdicts{ ($i % 3 ? 'wrong ' : 'right ') . (defined $answer ? unpack 'n', $answer : 'closed') }++;
}
is(join(', ', map { "$_: $verdicts{$_}" } sort keys %verdicts), 'right 0: 234, wrong 58: 466', '700 log-ins at once');
@many = ();

# ---- memory ----

my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 1");
sub resident { open my $f, '<', "/proc/$pid/status" or return 0; local $/; return <$f> =~ /^RssAnon:\s+(\d+)/m ? $1 : 0; }
my $device = $s->device('d1');
my $base = resident();

# 990 connections that say nothing of themselves, each with 100 MB announced, and 900 with as much as they may have.
@open = @silent = ();
my @flood = map { client() } 1 .. 990;
is(scalar @flood, 990, 'as many as a Perl may have');
$_->send_raw(pack('N', 100 << 20) . 'x' x 60000) for @flood;
is($device->publish_acked('acme/d1/t', 'x'), 0, 'O3: a device is served meanwhile');
is($dash->topics, 'telemetry', 'so is who has logged in');
is(scalar(grep { !$_->is_closed } @flood), 0, 'those who announce too much are closed');
cmp_ok(resident() - $base, '<', 20480, 'O3: 990 that announce 100 MB have cost ' . (resident() - $base) . ' kB');
my $read = $s->sql("SELECT bytes_in FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 1");
@flood = ();
@flood = map { client() } 1 .. 900;
$_->send_raw(pack('N', 65536) . 'x' x 60000) for @flood;
$s->wait_for("SELECT bytes_in > $read + 15000000 FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 1", 't', 'what they have sent to be read');
note $s->sql("SELECT connections, bytes_in, memory FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 1");
is($device->publish_acked('acme/d1/t', 'y'), 0, '54 MB in halves of frames: a device is served');
is($dash->topics, 'telemetry', 'so is who has logged in');
cmp_ok(resident() - $base, '<', 40960, 'and fleetlog.buffer_memory holds: ' . (resident() - $base) . ' kB');
@flood = ();

# Every request that is served, in every version: counts of 2^31 - 1 and -2^31, lengths likewise, and nothing at all.
$c = logged_in('dash');
$c->request(18, 0, '');
(undef, my $versions) = $c->answer;
my @apis = map { [ unpack 'n n n', $_ ] } unpack 'x2 N/(a6)', $versions;
my %ends;
for my $api (@apis)
{
    my ($key, $from, $to) = @$api;

    for my $version ($from .. $to)
    {
        for my $body ("\x7f\xff\xff\xff" x 8, "\x80\0\0\0" x 8, "\0\0" . "\x7f\xff\xff\xff" x 8, "\xff\xff\xff\xff\x0f" x 8, "\0\0\0\x01" . "\x7f\xff\xff\xff" x 8, '', "\x02" . "\xff\xff\xff\xff\x0f" x 8)
        {
            for my $flexible (0, 1)
            {
                my $one = client();

                $one->log_in('dash', 'pw-dash');
                $one->request($key, $version, $body, flexible => $flexible);
                # What happens to be well-formed is answered.
                $ends{ $one->is_closed ? 'closed' : 'answered' }++;
            }
        }
    }
}
note join ', ', map { "$ends{$_} $_" } sort keys %ends;
cmp_ok($ends{closed}, '>', 10 * $ends{answered}, 'counts that cannot be close the connection');
cmp_ok(resident() - $base, '<', 40960, 'counts that cannot be, in all ' . scalar(@apis) . ' requests: memory is flat: ' . (resident() - $base) . ' kB');
is($s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = 1"), $pid, 'and the door is the same process');

# All prefixes of well-formed requests, as whole frames and as halves of one.
my $frame = pack('n n N n/a*', 11, 5, 1, 'me') . str('g') . pack('N N', 10000, 10000) . str('') . pack('n', 0xFFFF) . str('consumer') . pack('N', 1) . str('range') . pack('N/a*', 'meta');
my $half = 0;
for my $n (0 .. length($frame) - 1)
{
    my $one = client();

    $one->log_in('dash', 'pw-dash');
    $one->send_raw(pack('N/a*', substr $frame, 0, $n));
    $half++ if $one->is_closed;
}
is($half, length $frame, 'I9: every prefix of a request is the end of its connection, and of nothing else');
$c = logged_in('dash');
$c->request(9, 0, str('g') . pack('N', 0));
ok($c->is_closed, 'A10: a version that is not served closes');
is($dash->topics, 'telemetry', '... that connection only');

is($device->publish_acked('acme/d1/t', 'z'), 0, 'the device is still there');
is($dash->topics, 'telemetry', 'and so is the role');

# ---- how many may connect at all ----

$s->set_conf('fleetlog.max_connections' => 30);
$s->node->restart;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the listener');
# Others are turned away at once, or told why.
sub is_let_in { my ($one) = @_; my ($error) = $one ? $one->log_in('dash', 'pw-dash') : (); return defined $error && $error == 0; }
my @crowd;
for (1 .. 40)
{
    my $one = client();

    push @crowd, $one if is_let_in($one);
}
is(scalar @crowd, 30, 'fleetlog.max_connections holds for Kafka clients');
is((grep { $_->topics eq 'telemetry' } @crowd), 30, 'nobody who was in has lost anything');
@crowd = ();
FleetlogTest::wait_until(sub { is_let_in(client()) }, 'room');
pass('and there is room again');
is($s->crashes, '', 'nothing has crashed');
done_testing();
