# K4, I2-I5: Kafka clients log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, certificates and keys of TLS; a name means what it
# means at the MQTT door; who fails learns nothing; what is revoked ends.  Cases H1, H2, H4, H5.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Kafka;
use FleetlogTest::Pki;
use FleetlogTest::Scram;

my ($port, $tls) = map { PostgreSQL::Test::Cluster::get_free_port() } 1, 2;
my $s = FleetlogTest->new('kafka_sasl', no_start => 1);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost');
$pki->issue('cert', subject => '/CN=device of a certificate');
$pki->issue('nobody', subject => '/CN=nobody');
my %conf = ('fleetlog.kafka_listen' => "127.0.0.1:$port", 'fleetlog.kafkas_listen' => "127.0.0.1:$tls", 'fleetlog.tls_cert_file' => "$dir/server.crt",
    'fleetlog.tls_key_file' => "$dir/server.key", 'fleetlog.tls_ca_file' => "$dir/ca.crt", 'fleetlog.tls_crl_file' => "$dir/ca.crl", 'fleetlog.connect_timeout' => '20s');
$s->set_conf(%conf);
$s->start_and_install;
$s->fleet(devices => 3);
$s->sql(<<'SQL');
SELECT fleetlog.create_tenant('other', 'other/');
SELECT fleetlog.create_device('d3', 'other', password => 'pw-other');
SELECT fleetlog.create_device('cert', 'acme', certificate_subject => 'device of a certificate');
SELECT fleetlog.create_device('d2', 'other', password => (SELECT verifier FROM fleetlog.credential WHERE device = 'd2'));
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
CREATE ROLE soon LOGIN PASSWORD 'pw-soon' VALID UNTIL '2199-01-01';
CREATE ROLE old LOGIN PASSWORD 'pw-old' VALID UNTIL '2020-01-01';
CREATE ROLE bare LOGIN;
CREATE ROLE d1 LOGIN PASSWORD 'pw-d1';
GRANT SELECT, INSERT ON telemetry TO dash, soon;
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol IN ('kafka', 'kafkas') AND state = 'listening'", '2', 'the listeners');

sub str { return pack('n/a*', $_[0]); }
sub client { return FleetlogTest::Kafka->connect($port); }
my $since = 0;
sub logged { my ($re, $why) = @_; $s->wait_for_log($re, $since); pass($why); return; }
my @ALL = ('PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512');

# ---- who may come in, and how ----

my $c = client();
is(join(' ', $c->handshake('GSSAPI')), '33 PLAIN SCRAM-SHA-256 SCRAM-SHA-512', 'H5: a mechanism that is not served: 33, with the list');
is(join(' ', $c->handshake('PLAIN')), '0 PLAIN SCRAM-SHA-256 SCRAM-SHA-512', '... and another one may follow');
for my $how (@ALL)
{
    for my $who ([ 'acme/d1', 'pw-d1', 'acme/d1' ], [ 'd2', undef ], [ 'other/d3', 'pw-other', 'other/d3' ], [ 'dash', 'pw-dash', 'dash' ])
    {
        my ($user, $password, $identity) = @$who;

        next unless defined $password;
        $c = client();
        my ($error, $message, $bytes, $lifetime) = $c->log_in($user, $password, mechanism => $how);
        if ($user eq 'dash' && $how eq 'SCRAM-SHA-512')
        {
            is("$error $message", '58 Authentication failed: unknown user or wrong password', 'K4: SCRAM-SHA-512 of a role: 58');
            ok($c->is_closed, '... and the end');
            next;
        }
        is("$error $lifetime", '0 0', "H5: $user by $how") or next;
        isnt($c->topics, undef, '... may ask');
        is($s->sql("SELECT identity || ' ' || listener || ' ' || protocol || ' ' || client_id FROM fleetlog.stat_connection WHERE identity = '$identity'"),
            "$identity kafka kafka test", '... and stands in the view');
        undef $c;
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE identity = '$identity'", '0', 'its end');
    }
}
is((client()->authenticate("\0acme/d1\0pw-d1"))[0], 34, 'SaslAuthenticate without a handshake: illegal state');
my @long = client()->log_in('soon', 'pw-soon');
cmp_ok($long[3], '>', 86400_000, 'a role whose password ends is told for how long it is good');

# ---- who may not: one answer for all of them ----

my %told;
for my $how (@ALL)
{
    for my $case (
        [ 'a wrong password', 'acme/d1', 'wrong' ], [ 'an unknown device', 'acme/none', 'pw-d1' ], [ 'an unknown name', 'none', 'x' ],
        [ 'a name of a device and a role', 'd1', 'pw-d1' ], [ 'a bare id that two tenants have', 'd3', 'pw-d3' ], [ 'a role without a password', 'bare', 'x' ],
        [ 'a role whose password has expired', 'old', 'pw-old' ], [ 'a password of another device', 'acme/d1', 'pw-d2' ], [ 'a device without a password', 'acme/cert', 'x' ])
    {
        my ($what, $user, $password) = @$case;

        $c = client();
        my @answer = $c->log_in($user, $password, mechanism => $how);
        is($answer[0], 58, "$what by $how: 58");
        ok($c->is_closed, '... and the end');
        $told{ $answer[1] } = 1;
    }
}
is(join('|', keys %told), 'Authentication failed: unknown user or wrong password', 'H5: all are told the same');
# The salt of a name that does not exist is always the same, like that of one that does.
my %salt;
for my $user ('acme/d2', 'acme/none') { for (1, 2) { $c = client(); $c->handshake('SCRAM-SHA-512'); $salt{$user}{ ($c->authenticate("n,,n=$user,r=x"))[2] =~ s/^r=[^,]*,//r } = 1; } }
is(join(' ', map { scalar keys %$_ } values %salt), '1 1', 'H5: a name has one salt, whether it exists or not');
# A verifier instead of a password has no other hash beside it.
is((client()->log_in('other/d2', 'pw-d2', mechanism => 'SCRAM-SHA-256'))[0], 0, 'a device that was given a verifier: SCRAM-SHA-256');
is((client()->log_in('other/d2', 'pw-d2', mechanism => 'SCRAM-SHA-512'))[0], 58, '... has nothing to check SCRAM-SHA-512 by');
$s->sql("SELECT fleetlog.set_password('other/d2', 'new')");
is((client()->log_in('other/d2', 'new', mechanism => 'SCRAM-SHA-512'))[0], 0, '... until its password is set');

# Malformed tokens get an answer.
for my $case (
    [ 'H4: no user name', 'SCRAM-SHA-256', 'n,,r=abc' ], [ 'H4: an empty name', 'SCRAM-SHA-512', 'n,,n=,r=abc' ], [ 'H4: nothing', 'SCRAM-SHA-256', '' ],
    [ 'channel binding', 'SCRAM-SHA-256', 'p=tls-unique,,n=acme/d1,r=x' ], [ 'one part', 'PLAIN', 'acme/d1' ], [ 'four parts', 'PLAIN', "\0acme/d1\0pw-d1\0" ],
    [ 'no user', 'PLAIN', "\0\0pw" ], [ 'a long password', 'PLAIN', "\0u\0" . 'x' x 2000 ], [ 'to act for another', 'PLAIN', "acme/d2\0acme/d1\0pw-d1" ], [ 'no UTF-8', 'PLAIN', "\0\xff\xfe\0x" ])
{
    my ($what, $how, $token) = @$case;

    $c = client();
    $c->handshake($how);
    is(($c->authenticate($token))[0], 58, "$what: 58");
    ok($c->is_closed, '... and the end');
}
is((sub { my $p = client(); $p->handshake('PLAIN'); return ($p->authenticate("acme/d1\0acme/d1\0pw-d1"))[0]; })->(), 0, 'PLAIN with the name twice, as kafka-python sends it');
is((client()->log_in('acme/d1', 'pw-d1', mechanism => 'SCRAM-SHA-256', before_nonce => 'nonce'))[0], 0, 'H2: a nonce that is repeated before the whole one');
is((client()->log_in('acme/d1', 'pw-d1', mechanism => 'SCRAM-SHA-256', nonce => 'noncenonce'))[0], 58, 'H2: one that does not end with ours');

# ---- handshake of version 0, and bare tokens ----

$c = client();
is(join(' ', $c->handshake('PLAIN', 0)), '0 PLAIN SCRAM-SHA-256 SCRAM-SHA-512', 'H1: a handshake of version 0, before ApiVersions');
is($c->token("acme/d1\0acme/d1\0pw-d1"), '', 'H1: PLAIN: an empty token');
isnt($c->topics, undef, 'H1: and it is in');
$c = client();
$c->handshake('PLAIN', 0);
is($c->token("\0acme/d1\0wrong"), undef, 'H1: a wrong password: closed');
for my $hash (256, 512)
{
    $c = client();
    $c->handshake("SCRAM-SHA-$hash", 0);
    my $first = "n,,n=acme/d1,r=raw$hash";
    my ($final, $theirs) = FleetlogTest::Scram::prove($first, $c->token($first), 'pw-d1', hash => $hash);
    is($c->token($final), $theirs, "H1: SCRAM-SHA-$hash by bare tokens");
    isnt($c->topics, undef, 'H1: and it is in');
}

# ---- once more on an open connection (KIP-368) ----

$c = client();
$c->log_in('dash', 'pw-dash');
is($c->topics, 'telemetry', 'a role sees what it may read');
is(($c->log_in('dash', 'pw-dash', mechanism => 'SCRAM-SHA-256'))[0], 0, 'it may prove itself again');
is($c->topics, 'telemetry', '... and goes on');
is(($c->log_in('acme/d1', 'pw-d1'))[0], 58, 'as somebody else it may not');
ok($c->is_closed, '... and is closed');

# ---- what is revoked ends ----

my ($d1, $dash, $soon) = map { my $one = client(); is(($one->log_in(@$_))[0], 0, "$_->[0] is in"); $one } [ 'acme/d1', 'pw-d1' ], [ 'dash', 'pw-dash' ], [ 'soon', 'pw-soon' ];
$since = -s $s->node->logfile;
$s->sql("SELECT fleetlog.revoke_device('acme/d1', 'stolen')");
ok($d1->is_closed, 'I2: the connection of a revoked device ends');
logged(qr/connection of Kafka client "test" at \S+ is closed: its credential was revoked/, '... as the log says');
is((client()->log_in('acme/d1', 'pw-d1'))[0], 58, '... and it is not let in again');
$s->sql("ALTER ROLE dash PASSWORD 'pw-new'");
ok($dash->is_closed, 'a new password of a role ends what the old one has opened');
is((client()->log_in('dash', 'pw-dash'))[0], 58, '... and the old one is forgotten');
is($s->sql("SELECT fleetlog.disconnect('soon')"), '1', 'disconnect() knows Kafka clients');
ok($soon->is_closed, '... and closes them');
$soon = client();
is(($soon->log_in('soon', 'pw-soon'))[0], 0, 'it may come back');
$s->sql("ALTER ROLE soon VALID UNTIL '" . $s->sql("SELECT now() + interval '1500 ms'") . "'");
$soon = client();
my ($error, undef, undef, $lifetime) = $soon->log_in('soon', 'pw-soon');
ok($error == 0 && $lifetime > 0 && $lifetime <= 1500, "a session ends with the password: $lifetime ms");
$s->wait_for("SELECT now() >= rolvaliduntil FROM pg_roles WHERE rolname = 'soon'", 't', 'its end');
is($soon->topics, undef, '... after which nothing is answered');
my $mid = client();
$mid->handshake('SCRAM-SHA-256');
my $first = 'n,,n=acme/d2,r=mid';
my (undef, undef, $server_first) = $mid->authenticate($first);
$s->sql("SELECT fleetlog.revoke_device('acme/d2')");
is(($mid->authenticate((FleetlogTest::Scram::prove($first, $server_first, 'pw-d2'))[0]))[0], 58, 'revoked in the middle of a login');

# ---- real clients, TLS ----

sub kcat
{
    my ($p, @args) = @_;
    my ($out, $err) = ('', '');

    IPC::Run::run([ 'kcat', '-L', '-b', "localhost:$p", '-m', 10, @args ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return $out =~ /topic "telemetry"/ ? 'telemetry' : $out =~ / 0 topics/ ? 'no topics' : 'refused';
}
sub sasl { my ($how, $user, $password, $protocol) = @_; return map { ('-X', $_) } 'security.protocol=' . ($protocol // 'sasl_plaintext'), "sasl.mechanisms=$how", "sasl.username=$user", "sasl.password=$password"; }
my @ca = ('-X', "ssl.ca.location=$dir/ca.crt");
sub cert { my ($name) = @_; return (@ca, map { ('-X', $_) } 'security.protocol=ssl', "ssl.certificate.location=$dir/$name.crt", "ssl.key.location=$dir/$name.key"); }

SKIP:
{
    skip 'kcat is not here', 9 unless grep { -x "$_/kcat" } split /:/, $ENV{PATH};
    is(kcat($port, sasl('PLAIN', 'dash', 'pw-new')), 'telemetry', 'kcat: PLAIN');
    is(kcat($port, sasl('SCRAM-SHA-256', 'dash', 'pw-new')), 'telemetry', 'H2: kcat: SCRAM-SHA-256');
    is(kcat($port, sasl('SCRAM-SHA-512', 'other/d2', 'new')), 'no topics', 'H2: kcat: SCRAM-SHA-512');
    is(kcat($port, sasl('PLAIN', 'dash', 'wrong'), '-m', 3), 'refused', 'kcat: a wrong password');
    is(kcat($tls, @ca, sasl('SCRAM-SHA-256', 'dash', 'pw-new', 'sasl_ssl')), 'telemetry', 'kcat: SCRAM over TLS');
    isnt(kcat($tls, cert('cert')), 'refused', 'kcat: a certificate is a log-in');
    is(kcat($tls, cert('nobody'), '-m', 3), 'refused', 'kcat: a certificate that no device has');
    is(kcat($tls, cert('nobody'), sasl('PLAIN', 'dash', 'pw-new', 'sasl_ssl')), 'telemetry', '... may be that of a gateway, which logs in');
    $s->sql("SELECT fleetlog.revoke_device('acme/cert')");
    is(kcat($tls, cert('cert'), '-m', 3), 'refused', 'kcat: the certificate of a revoked device');
}
SKIP:
{
    # kafka-python 2.0: a handshake of version 0 before it asks for versions, and bare tokens.
    skip 'kafka-python is not here', 3 if system('/usr/bin/python3 -c "import kafka" 2>/dev/null') != 0;
    my $program = 'import sys, kafka; a = sys.argv; c = kafka.KafkaConsumer(bootstrap_servers=a[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism=a[2], sasl_plain_username=a[3], sasl_plain_password=a[4]); print(" ".join(sorted(c.topics())))';
    my $consumer = sub { my ($out, $err); IPC::Run::run([ '/usr/bin/python3', '-c', $program, "127.0.0.1:$port", @_ ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT)); return $out ne '' ? $out =~ s/\n//r : $err =~ /AuthenticationFailed/ ? 'refused' : $err; };
    is($consumer->($_, 'dash', 'pw-new'), 'telemetry', "H1: kafka-python: $_") for 'PLAIN', 'SCRAM-SHA-256';
    isnt($consumer->('PLAIN', 'dash', 'wrong'), 'telemetry', 'H1: kafka-python: a wrong password');
}
$pki->issue('server2', subject => '/CN=localhost', san => 'DNS:localhost');
$s->set_conf(%conf, 'fleetlog.tls_cert_file' => "$dir/server2.crt", 'fleetlog.tls_key_file' => "$dir/server2.key");
sub run { my ($in, @command) = @_; IPC::Run::run(\@command, '<', \$in, '>', \my $out, '2>', \my $err, IPC::Run::timeout($FleetlogTest::TIMEOUT)); return $out; }
sub shown { return run(run('', 'openssl', 's_client', '-connect', "127.0.0.1:$tls"), 'openssl', 'x509', '-noout', '-serial'); }
my $serial = run('', 'openssl', 'x509', '-noout', '-serial', '-in', "$dir/server2.crt");
FleetlogTest::wait_until(sub { shown() eq $serial }, 'the new certificate');
pass('a reload takes a new certificate');

# ---- keys of TLS ----

# Metadata over TLS with a pre-shared key: the answer's bytes.
sub by_key
{
    my ($identity, $key) = @_;
    my ($out, $err) = ('', '');
    my $metadata = pack('n n N n/a*', 3, 1, 7, 'psk') . pack('N', 0xFFFFFFFF);
    my ($in, $open) = FleetlogTest::input(pack('N/a*', $metadata));
    my $h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$tls", '-tls1_3', '-psk_identity', $identity, '-psk', $key, '-quiet', '-no_ign_eof' ],
        '<', $in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $h->pump_nb; length $out > 8 || !$h->pumpable }, 'an answer');
    $h->kill_kill;
    return $out;
}
$s->set_conf(%conf, 'fleetlog.tls_psk' => 'on');
my $key = '00112233445566778899aabbccddeeff';
$s->sql("SELECT fleetlog.create_device('p1', 'acme', psk => '\\x$key')");
FleetlogTest::wait_until(sub { by_key('acme/p1', $key) =~ /^....\0\0\0\x07/s }, 'a pre-shared key to be a login');
pass('a pre-shared key is a log-in');
is(by_key('acme/p1', 'ff' x 16), '', 'a wrong one is none');
$s->sql("SELECT fleetlog.revoke_device('acme/p1')");
is(by_key('acme/p1', $key), '', 'nor is a revoked one');

# ---- where nobody has to log in ----

$s->set_conf(%conf, 'fleetlog.allow_anonymous' => 'on', 'fleetlog.log_connections' => 'all');
$since = -s $s->node->logfile;
FleetlogTest::wait_until(sub { defined client()->topics }, 'anonymous clients to be let in');
$c = client();
is($c->topics, 'telemetry', 'who has not logged in sees everything');
is($s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE protocol = 'kafka' AND identity IS NULL"), '1', '... and stands in the view');
is(($c->log_in('dash', 'pw-new'))[0], 58, 'what was anonymous stays so');
$c = client();
is(($c->log_in('dash', 'pw-new'))[0], 0, 'a log-in counts all the same');
is($s->sql("SELECT role FROM fleetlog.stat_connection WHERE protocol = 'kafka' AND role IS NOT NULL"), 'dash', '... as who it is');
logged(qr/Kafka client "test" was let in from \S+ as role "dash"/, 'log_connections = all: who was let in');
undef $c;
logged(qr/Kafka client "test", role "dash", is gone: /, '... and who is gone');
is((client()->log_in('dash', 'wrong'))[0], 58, 'a wrong password is no way to be nobody');
$s->sql("SELECT fleetlog.create_device('told', 'acme', password => 'pw'); SELECT fleetlog.send_command('acme/told', 'open', '{}')");
$s->wait_for("SELECT fleetlog.tail('fleetlog.command_log', 0) > 0", 't', 'the command to be a record');
$s->sql("SELECT fleetlog.create_stream('newest')");
FleetlogTest::wait_until(sub { my $topics = client()->topics; die "topics: $topics" if $topics =~ /command/; $topics =~ /newest/ }, 'the newest stream');
pass('commands are no topic for who has not logged in');
$s->set_conf(%conf, 'fleetlog.allow_anonymous' => 'on', 'fleetlog.anonymous_no_subscribe' => 'acme/d1/secret/#');
FleetlogTest::wait_until(sub { my $t = client(); $t->request(9, 1, str('g') . pack('N', 1) . str('telemetry') . pack('N N', 1, 0)); my (undef, $a) = $t->answer; defined $a && substr($a, -2) eq "\0\x1D" },
    'reading the stream to be refused');
pass('nor is a stream read that has topics which anonymous_no_subscribe withholds: 29');
SKIP:
{
    skip 'kcat is not here', 2 unless grep { -x "$_/kcat" } split /:/, $ENV{PATH};
    is(kcat($tls, cert('nobody')), 'telemetry', 'a certificate that no device has: anonymous');
    is(kcat($tls, cert('cert'), '-m', 3), 'refused', 'that of a revoked device: not even that');
}
$s->set_conf(%conf);
is($s->crashes, '', 'nothing has crashed');
done_testing();
