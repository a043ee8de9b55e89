# I4, I7: a device may publish and subscribe under its own subtree, receive its commands and answer there, and nothing
# else; substituted text is never a wildcard.  Cases O-A, O-B, O-E, O38.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('rights');
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('telemetry');
SELECT fleetlog.create_tenant('acme', 'acme/'), fleetlog.create_tenant('zeta', 'zeta/');
SELECT fleetlog.mount('acme/', 'telemetry'), fleetlog.mount('zeta/', 'telemetry');
SELECT fleetlog.create_device(d, 'acme', password => 'pw-' || d) FROM unnest(ARRAY['d1', 'd2', 'd', 'd10']) d;
SELECT fleetlog.create_device('d1', 'zeta', password => 'pw-d1');
SQL

# O-A: identifiers that would be wildcards, levels or commands in a template are refused at creation.
for my $id ('+', '#', 'a/#', 'a/b', '', 'cmd', '$x', "a+", 'a#')
{
    my $error = $s->sql_error("SELECT fleetlog.create_device('$id', 'acme', password => 'x')");
    isnt($error, undef, "O-A: a device called '$id' is refused");
}
for my $prefix ('acme', '+/', 'a/#/', '', '$x/')
{
    isnt($s->sql_error("SELECT fleetlog.create_tenant('t', '$prefix')"), undef, "a tenant's prefix '$prefix' is refused");
}
for my $prefix ('acme/+/', 'x', '#', 'a/#/', '$SYS/', 'cmd/', 'acme/cmd/')
{
    isnt($s->sql_error("SELECT fleetlog.mount('$prefix', 'telemetry')"), undef, "a mount of '$prefix' is refused");
}

my $d1 = $s->device('d1');
my %publish = (
    'acme/d1/t' => 1, 'acme/d1/a/b/c' => 1, 'acme/d2/t' => 0, 'acme/d10/t' => 0, 'acme/d/t' => 0, 'acme/t' => 0, 'acme/d1' => 0, 'zeta/d1/t' => 0,
    'zeta/t' => 0, 'other' => 0, 'acme//t' => 0, 'Acme/d1/t' => 0, '/acme/d1/t' => 0, 'acme/d1t/x' => 0, 'acme/cmd/d2/ack/1' => 0,
    'acme/cmd/d1/req/open' => 0);
for my $topic (sort keys %publish)
{
    my $reason = $d1->publish_acked($topic, 'x');
    if ($publish{$topic}) { is($reason, 0, "publish to $topic is allowed"); }
    else { like($reason, qr/^(135|144)$/, "publish to $topic is refused"); }
}
is($s->sql("SELECT string_agg(key, ' ' ORDER BY key) FROM telemetry"), 'acme/d1/a/b/c acme/d1/t', 'nothing refused was stored');
is($s->sql('SELECT count(*) FROM telemetry WHERE tenant = \'acme\' AND device = \'d1\''), '2', 'the sender is the authenticated one');
$s->wait_for('SELECT coalesce(sum(publish_refused), 0) >= 13 FROM fleetlog.stat_worker', 't', 'refusals to be counted');

# Filters: only what the subtree covers.
my %subscribe = (
    'acme/d1/#' => 1, 'acme/d1/+' => 1, 'acme/d1/t' => 1, 'acme/d1/+/x/#' => 1, 'acme/cmd/d1/#' => 1, 'acme/cmd/d1/req/+' => 1,
    '#' => 0, '+' => 0, 'acme/#' => 0, 'acme/+/t' => 0, 'acme/+/#' => 0, '+/d1/#' => 0, 'acme/d2/#' => 0, 'acme/d10/#' => 0,
    'zeta/#' => 0, 'zeta/d1/#' => 0, 'acme/cmd/#' => 0, 'acme/cmd/+/req' => 0, 'acme/cmd/d2/#' => 0, '$SYS/#' => 0, 'cmd/#' => 0);
for my $filter (sort keys %subscribe)
{
    my ($reason) = $d1->subscribe([ [ $filter, 1 ] ]);
    is($reason < 0x80 ? 1 : 0, $subscribe{$filter}, sprintf 'subscribe to %s: 0x%02X', $filter, $reason);
    $d1->unsubscribe($filter);
}
# O38: what was refused is not delivered either; what is mixed into one SUBSCRIBE is judged one by one.
my $d2 = $s->device('d2');
is(join(',', map { $_ < 0x80 ? 1 : 0 } $d1->subscribe([ 'acme/d2/#', 'acme/d1/#', '#' ])), '0,1,0', 'each filter is judged alone');
is($d2->publish_acked('acme/d2/t', 'secret'), 0, 'd2 publishes');
is($d1->publish_acked('acme/d1/t', 'mine'), 0, 'd1 publishes');
is(join(' ', map { $_->{payload} } $d1->messages(1)), 'mine', 'O38: only what is allowed arrives');
ok($d1->quiet(0.5), 'and nothing else');

# The same rights for 3.1.1, where a refusal has no reason code in PUBACK.
my $old = $s->device('d2', version => 4, client_id => 'old');
is(join(',', $old->subscribe([ 'acme/d1/#', 'acme/d2/#' ])), '128,0', '3.1.1: 0x80 for the refused filter');
$old->publish('acme/d1/t', 'forged', qos => 1);
my $answer = $old->read_packet(5);
is($s->sql("SELECT count(*) FROM telemetry WHERE payload = 'forged'"), '0', '3.1.1: a forged topic is not stored');

# Tenants with the same device id do not meet.
my $zeta = $s->raw;
is($zeta->login(client_id => 'd1', user => 'zeta/d1', password => 'pw-d1')->{reason}, 0, "another tenant's d1");
like($zeta->publish_acked('acme/d1/t', 'x'), qr/^(135|144)$/, "cannot publish as the first one's");
is($zeta->publish_acked('zeta/d1/t', 'x'), 0, 'and publishes as itself');

# Passwords: at the edges of a block of the hash, and as SASLprep makes them equal (RFC 4013, section 3).
my $block = join '', map { chr(33 + $_ % 90) } 1 .. 200;
for my $length (1, 55, 56, 63, 64, 65, 127, 128, 129, 200) {
    my $password = substr($block, 0, $length) =~ s/'/''/gr;
    $s->sql("SELECT fleetlog.create_device('p$length', 'acme', password => '$password')");
    is($s->raw->login(client_id => 'p', user => "acme/p$length", password => substr($block, 0, $length))->{reason}, 0, "a password of $length bytes");
    is($s->raw->login(client_id => 'p', user => "acme/p$length", password => substr($block, 0, $length - 1) . '~')->{reason}, 134, '... and no other');
}
$s->sql(q(SELECT fleetlog.create_device('prep', 'acme', password => E'I\\u00ADX')));
is($s->raw->login(client_id => 'p', user => 'acme/prep', password => 'IX')->{reason}, 0, 'a password is prepared before it is hashed');
is($s->raw->login(client_id => 'p', user => 'acme/prep', password => "I\xc2\xadX")->{reason}, 0, 'at both sides');

# allow and disallow take effect while connected; an allowed filter with a substitution stays inside the device.
$s->sql("SELECT fleetlog.allow('acme', 'publish', 'acme/shared/{device}')");
FleetlogTest::wait_until(sub { $d1->publish_acked('acme/shared/d1', 'x') == 0 }, 'the new right');
like($d1->publish_acked('acme/shared/d2', 'x'), qr/^(135|144)$/, 'the substitution is literal');
is($s->sql("SELECT (fleetlog.can('acme/d1', 'publish', 'acme/shared/d1')::text LIKE '%t%')"), 't', 'can() says so');
$s->sql("SELECT fleetlog.disallow('acme', 'publish', 'acme/shared/{device}')");
FleetlogTest::wait_until(sub { $d1->publish_acked('acme/shared/d1', 'x') != 0 }, 'the right to be gone');
pass('disallow takes effect');
# O-D in what exists: a right that is withdrawn ends deliveries too.
$s->sql("SELECT fleetlog.allow('acme', 'subscribe', 'acme/news/#'), fleetlog.allow('acme', 'publish', 'acme/news/#')");
FleetlogTest::wait_until(sub { ($d2->subscribe(['acme/news/x']))[0] < 0x80 }, 'the right to subscribe');
FleetlogTest::wait_until(sub { $d1->publish_acked('acme/news/x', 'first') == 0 }, 'the right to publish');
my ($m) = $d2->messages(1);
is($m->{payload}, 'first', 'delivered while allowed');

# Devices cannot reach SQL, and ordinary roles cannot reach credentials.
$s->sql('CREATE ROLE curious LOGIN');
my ($rc, $out, $err) = $s->node->psql('fleetlog', 'SELECT * FROM fleetlog.credential', extra_params => [ '-U', 'curious' ]);
isnt($rc, 0, 'an ordinary role cannot read credentials');
($rc, $out, $err) = $s->node->psql('fleetlog', "SELECT fleetlog.create_device('evil', 'acme')", extra_params => [ '-U', 'curious' ]);
isnt($rc, 0, 'nor make devices');
($rc, $out, $err) = $s->node->psql('fleetlog', "SELECT fleetlog.append('telemetry', 'k', 'x')", extra_params => [ '-U', 'curious' ]);
like($err, qr/permission denied/, 'nor append without INSERT');
($rc, $out, $err) = $s->node->psql('fleetlog', "SELECT fleetlog.publish('acme/d1/t', 'x')", extra_params => [ '-U', 'curious' ]);
isnt($rc, 0, 'nor publish');
($rc, $out, $err) = $s->node->psql('fleetlog', "SELECT * FROM fleetlog.read('telemetry', 0, 0)", extra_params => [ '-U', 'curious' ]);
isnt($rc, 0, 'nor read without SELECT');
$s->sql('GRANT SELECT, INSERT ON telemetry TO curious');
($rc, $out, $err) = $s->node->psql('fleetlog', "SELECT fleetlog.append('telemetry', 'k', 'x'); SELECT count(*) > 0 FROM fleetlog.read('telemetry', 0, 0); SELECT count(*) > 0 FROM telemetry",
    extra_params => [ '-U', 'curious' ], on_error_stop => 1);
is($rc, 0, 'with the grants it can') or diag($err);
is($s->sql("SELECT headers ->> 'fl.role' FROM telemetry WHERE key = 'k'"), 'curious', 'and the record names the role');
isnt(($s->node->psql('fleetlog', "SELECT fleetlog.append('telemetry', 'k', 'x', device => 'd1', tenant => 'acme')", extra_params => [ '-U', 'curious' ], on_error_stop => 1))[0],
    0, 'it cannot append as a device');
# The worker role owns nothing and cannot log in.
is($s->sql("SELECT count(*) FROM pg_class WHERE relowner = 'fleetlog_worker'::regrole"), '0', 'the worker role owns nothing');
($rc) = $s->node->psql('fleetlog', 'SELECT 1', extra_params => [ '-U', 'fleetlog_worker' ]);
isnt($rc, 0, 'and nobody logs in as it');
is($s->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%' AND datname IS NOT NULL AND usesysid <> 'fleetlog_worker'::regrole"),
    '0', 'workers that are in a database run as that role');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
