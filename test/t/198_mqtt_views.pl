# Q3, M8: what operators see of connections, sessions and subscriptions, and how they end one: disconnect() by client id,
# by device and by role, of one tenant only.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('views', conf => "fleetlog.max_inflight = 4\n");
$s->fleet(devices => 3);
$s->sql(<<'SQL');
SELECT fleetlog.create_tenant('zeta', 'zeta/'), fleetlog.create_device('d1', 'zeta', password => 'pw-zeta');
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
GRANT SELECT ON telemetry TO dash;
SQL

sub row { my ($what, $id) = @_; return $s->sql("SELECT $what FROM fleetlog.stat_connection WHERE client_id = '$id'"); }
sub client { my ($user, $password, $id, %opt) = @_; my $c = $s->raw; my $ack = $c->login(client_id => $id, user => $user, password => $password, %opt); is($ack->{reason}, 0, "$user is let in"); return $c; }

# ---- connections ----

my $d1 = $s->device('d1', client_id => 'one', keep_alive => 77);
is(row(q(concat_ws('|', identity, tenant, device, coalesce(role, '-'), listener, coalesce(tls_version, '-'), coalesce(tls_cipher, '-'), protocol, keep_alive, session, coalesce(session_expiry::text, '-'))), 'one'),
   'acme/d1|acme|d1|-|mqtt|-|-|5.0|77|f|-', 'who a device is, and how it came');
my $dash = client('dash', 'pw-dash', 'board');
is(row(q(concat_ws('|', identity, coalesce(tenant, '-'), coalesce(device, '-'), role)), 'board'), 'dash|-|-|dash', 'and a role');
$d1->publish_acked('acme/d1/t', 'x' x 500) for 1 .. 3;
# CONNECT and three PUBLISH came, CONNACK and three PUBACK left.
$s->wait_for(q(SELECT packets_in = 4 AND packets_out = 4 AND published = 3 AND bytes_in > 1500 AND bytes_out BETWEEN 16 AND 1000 FROM fleetlog.stat_connection WHERE client_id = 'one'), 't', 'packets and bytes to be counted');
pass('packets and bytes are counted');

# ---- sessions, and deliveries under way ----

my @keep = (clean => 0, properties => [ [ 17, 300 ] ]);
my $d2 = $s->device('d2', client_id => 'two', @keep);
is(join(',', $d2->subscribe([ [ 'acme/d2/#', 1 ], [ 'acme/d2/exact', 0 ] ])), '1,0', 'two filters');
my $other = $s->device('d2', client_id => 'source');
$other->publish_acked('acme/d2/t', "m$_") for 1 .. 6;
$s->wait_for(q(SELECT session AND session_expiry = '5 min' AND subscriptions = 2 AND inflight = 4 AND queued = 2 FROM fleetlog.stat_connection WHERE client_id = 'two'), 't', 'four to be under way, two to wait');
is($s->sql(q(SELECT string_agg(concat_ws('|', identity, connected, filter, qos), ' ' ORDER BY filter) FROM fleetlog.stat_subscription)), 'acme/d2|t|acme/d2/#|1 acme/d2|t|acme/d2/exact|0', 'stat_subscription names the filters');
is($s->sql(q(SELECT concat_ws('|', tenant, device, coalesce(role, '-'), connected, subscriptions, expiry) FROM fleetlog.stat_session WHERE client_id = 'two')), 'acme|d2|-|t|2|00:05:00', 'stat_session too');
$d2->messages(6);
$d2->disconnect(0);
$s->wait_for(q(SELECT NOT connected AND subscriptions = 2 FROM fleetlog.stat_session WHERE client_id = 'two'), 't', 'the session to be away');
$s->wait_for(q(SELECT inflight = 0 AND lag = 0 AND gap = 0 FROM fleetlog.stat_session WHERE client_id = 'two'), 't', 'nothing to be under way');
$other->publish_acked('acme/d2/t', "later$_") for 1 .. 5;
is($s->sql(q(SELECT concat_ws('|', lag, gap, inflight) FROM fleetlog.stat_session WHERE client_id = 'two')), '5|0|0', 'lag says how far it is behind');
is($s->sql(q(SELECT fleetlog.trim_head('telemetry', 0, fleetlog.tail('telemetry', 0) - 2, NULL) IS NOT NULL)), 't', 'history ends');
$s->wait_for(q(SELECT lag = 2 AND gap = 3 FROM fleetlog.stat_session WHERE client_id = 'two'), 't', 'the gap to be known');
pass('the gap is known while it is away');
is($s->sql(q(SELECT count(*) FROM fleetlog.stat_subscription WHERE NOT connected)), '2', 'its subscriptions are shown all the while');

# A tenant's own rows, as docs/operate.md has it.
my ($own) = PostgreSQL::Test::Utils::slurp_file(($ENV{FLEETLOG_SOURCE} // '.') . '/docs/operate.md') =~ /^```\n(DO \$do\$\n.*?^END \$do\$;\n)```/ms or BAIL_OUT('the example is not in docs/operate.md');
$s->sql("CREATE ROLE acme_ops;\n$own");
my $zeta = client('zeta/d1', 'pw-zeta', 'one', @keep);
$zeta->subscribe([ [ 'zeta/d1/#', 1 ] ]);
for my $view (qw(stat_connection stat_session stat_subscription presence))
{
    my ($all, $acme) = split / /, $s->sql("SELECT count(*) || ' ' || count(*) FILTER (WHERE tenant = 'acme') FROM fleetlog.$view");
    ok($all > $acme && $acme > 0, "$view: there are rows of both");
    is($s->sql("SET ROLE acme_ops; SELECT count(*) || ' ' || count(*) FILTER (WHERE tenant = 'acme') FROM acme_$view()"), "$acme $acme", "$view: a function shows a tenant its own");
    like($s->sql_error("SET ROLE acme_ops; SELECT * FROM fleetlog.$view"), qr/42501/, '... and nobody the whole');
}

# ---- disconnect ----

is($s->sql(q(SELECT fleetlog.disconnect('one', tenant => 'zeta'))), '1', "disconnect() of one tenant's client");
is($zeta->ending, '0x98', 'it is told 0x98');
is($d1->publish_acked('acme/d1/t', 'x'), 0, "the other tenant's stays");
is($s->sql(q(SELECT fleetlog.disconnect('acme/d1'))), '1', 'disconnect() of a device');
is($d1->ending, '0x98', 'ends it');
is($s->sql(q(SELECT fleetlog.disconnect('dash'))), '1', 'disconnect() of a role');
is($dash->ending, '0x98', 'ends it');
my @many = map { $s->device('d3', client_id => "many$_") } 1 .. 12;
is($s->sql('SELECT count(DISTINCT door) FROM fleetlog.stat_connection WHERE device = \'d3\''), '2', 'a device at both front doors');
is($s->sql(q(SELECT fleetlog.disconnect('acme/d3'))), '12', 'all of them are told');
is(join(' ', map { $_->ending } @many), join(' ', ('0x98') x 12), 'and end');
is($s->sql(q(SELECT fleetlog.disconnect('nobody'))), '0', 'nobody to disconnect');
is($s->sql(q(SELECT count(*) FROM fleetlog.audit WHERE event = 'disconnect')), '4', 'each is in the audit');

# ---- REVOKE, at both front doors ----

@many = map { client('dash', 'pw-dash', "dash$_") } 1 .. 12;
$_->subscribe([ 'acme/#' ]) for @many;
is($s->sql('SELECT count(DISTINCT door) FROM fleetlog.stat_connection WHERE role = \'dash\''), '2', 'a role at both front doors');
$s->sql('REVOKE SELECT ON telemetry FROM dash');
is(join(' ', map { $_->ending } @many), join(' ', ('0x87') x 12), 'REVOKE reaches both');

# ---- can ----

$s->sql(q(SELECT fleetlog.allow('acme', 'publish', 'acme/shared/{device}')));
like($s->sql(q(SELECT allowed || ' ' || reason FROM fleetlog.can('acme/d1', 'publish', 'acme/shared/d1'))), qr(^true .*acme/shared/\{device\}), 'can() names the rule that decides');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
