# I5: applications are roles of the server: they log in by their SCRAM verifier, and GRANT on a stream is the right to
# subscribe to and publish its topics.  What is granted or taken counts at once for who is connected.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Scram;

my $s = FleetlogTest->new('roles', conf => "fleetlog.workers = 1\n");   # a probe tells what the only front door knows
$s->fleet(devices => 2);
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('secret');
SELECT fleetlog.create_state('secret_state');
SELECT fleetlog.mount('hidden/', 'secret', state => 'secret_state');
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
CREATE ROLE readers NOLOGIN;
CREATE ROLE bare LOGIN;
CREATE ROLE old LOGIN PASSWORD 'pw-old' VALID UNTIL '2020-01-01';
CREATE ROLE d2 LOGIN PASSWORD 'pw-d2';
CREATE ROLE nobody NOLOGIN PASSWORD 'pw-nobody';
CREATE ROLE chief LOGIN SUPERUSER PASSWORD 'pw-chief';
SQL
$s->sql(q(SELECT fleetlog.publish('hidden/kept', 'kept', retain => true)));

sub connect_role { my ($role, %opt) = @_; my $c = $s->raw(%opt); my $ack = $c->login(client_id => $opt{client_id} // "app-$role", user => $role, password => $opt{password} // "pw-$role", %opt); return ($c, $ack->{reason}, $ack); }
sub role { my ($role, %opt) = @_; my ($c, $reason) = connect_role($role, %opt); is($reason, 0, "$role is let in") or BAIL_OUT("$role was refused: $reason"); return $c; }
sub refused { my ($role, $why, %opt) = @_; my ($c, $reason) = connect_role($role, %opt); is($reason, 0x86, "$why: 0x86"); is($c->ending, 'closed', '... and the end'); return; }
sub probe { my ($role, $filter) = @_; my ($c) = connect_role($role, client_id => 'probe'); my ($code) = $c->subscribe([ [ $filter, 1 ] ]); $c->disconnect(0); return $code; }
sub granted { my ($role, $filter) = @_; FleetlogTest::wait_until(sub { probe($role, $filter) == 1 }, "$filter to be granted to $role"); return; }
sub refused_at { my ($role, $filter) = @_; FleetlogTest::wait_until(sub { probe($role, $filter) == 0x87 }, "$filter to be refused to $role"); return; }
sub can { my ($client, $action, $topic) = @_; return $s->sql("SELECT allowed || ': ' || reason FROM fleetlog.can('$client', '$action', '$topic')"); }

# ---- who may come in ----

refused('dash', 'a wrong password', password => 'pw-other');
refused('bare', 'a role without a password');
refused('old', 'a password that is no longer valid');
refused('nobody', 'a role that may not log in');
refused('d2', 'a name that is a device too');
like(can('d2', 'publish', 'acme/d2/t'), qr/^false: .*both a device's and a login role's/, '... as can() tells');
is($s->device('d2')->publish_acked('acme/d2/t', 'x'), 0, '... whose device logs in as tenant/device');
# With a remembered password as well: the second log-in does not ask the authentication worker again.
my $dash = role('dash');
$dash->disconnect(0);
$dash = role('dash');
is($s->sql(q(SELECT identity FROM fleetlog.stat_connection WHERE client_id = 'app-dash')), 'dash', 'the view names the role');

# ---- nothing is granted ----

is(join(',', $dash->subscribe([ '#', 'acme/#', 'acme/d1/t', 'hidden/#', '$SYS/#', 'cmd/#', 'elsewhere/x' ])), join(',', (0x87) x 7), 'without a grant nothing can be subscribed');
is($dash->publish_acked('acme/d1/t', 'x'), 0x87, 'nor published');
like(can('dash', 'subscribe', 'acme/#'), qr/^false: .*GRANT SELECT/, 'can() tells what is missing');
like(can('dash', 'publish', 'acme/d1/t'), qr/^false: .*GRANT INSERT/, '... for both');

# ---- SELECT ----

my $d1 = $s->device('d1');
$s->sql('GRANT SELECT ON telemetry TO dash');
FleetlogTest::wait_until(sub { ($dash->subscribe([ [ '#', 1 ] ]))[0] == 1 }, 'the right to subscribe');
like(can('dash', 'subscribe', '#'), qr/^true: .*SELECT/, 'can() says why it may');
$s->sql(q(SELECT fleetlog.publish('hidden/x', 'hidden')));
is($d1->publish_acked('acme/d1/t', 'seen'), 0, 'a device publishes');
is(join(' ', map { $_->{payload} } $dash->messages(1)), 'seen', 'only what it may read arrives, retained values included');
ok($dash->quiet(0.5), 'and nothing else');
is($dash->publish_acked('acme/d1/t', 'x'), 0x87, 'SELECT is no right to publish');

# ---- INSERT ----

$s->sql('GRANT INSERT ON telemetry TO dash');
FleetlogTest::wait_until(sub { $dash->publish_acked('acme/app/t', 'from dash') == 0 }, 'the right to publish');
is($s->sql(q(SELECT DISTINCT tenant IS NULL AND device IS NULL AND headers ->> 'fl.role' = 'dash' FROM telemetry WHERE key = 'acme/app/t')), 't', 'the record names the role, and no device');
is(join(' ', map { $_->{payload} } $dash->messages(1)), 'from dash', 'its own message reaches it');
is($dash->publish_acked('hidden/x', 'x'), 0x87, 'other streams stay closed');
is($dash->publish_acked('acme/cmd/d1/req/open', 'x'), 0x87, 'commands are not sent this way');
is($dash->publish_acked('$SYS/x', 'x'), 0x87, 'nor is $SYS');
my $old = role('dash', version => 4, client_id => 'old-app');
is(join(',', $old->subscribe([ 'acme/#', 'hidden/#' ])), '0,128', '3.1.1: each filter is judged alone');

# No Local is about the client, and two roles with one client id are two clients.
$s->sql(q(GRANT SELECT, INSERT ON telemetry TO d2; CREATE ROLE other LOGIN PASSWORD 'pw-other'; GRANT SELECT, INSERT ON telemetry TO other));
my $a = role('dash', client_id => 'same');
my $b = role('other', client_id => 'same');
is(($a->subscribe([ [ 'acme/app/#', 4 | 1 ] ]))[0], 1, 'No Local');
is($a->publish_acked('acme/app/n', 'own'), 0, 'one publishes');
is($b->publish_acked('acme/app/n', 'others'), 0, 'the other publishes');
is(join(' ', map { $_->{payload} } $a->messages(1)), 'others', 'only the other role is somebody else');

# ---- REVOKE on open connections ----

$s->sql('REVOKE INSERT ON telemetry FROM dash');
FleetlogTest::wait_until(sub { $dash->publish_acked('acme/app/t', 'late') == 0x87 }, 'the right to publish to be gone');
pass('REVOKE INSERT counts for who is connected');
$s->sql('GRANT SELECT ON secret TO dash');
granted('dash', 'hidden/#');
is(($dash->subscribe([ 'hidden/#' ]))[0], 0, 'another right while connected');
$s->sql('REVOKE SELECT ON telemetry FROM dash');
is($old->ending, 'closed', 'REVOKE SELECT ends a connection with a filter of which nothing is left');
is($a->ending, '0x87', '... in MQTT 5 with its reason');
refused_at('dash', 'acme/#');
$d1->publish_acked('acme/d1/t', 'after the revoke');
$s->sql(q(SELECT fleetlog.publish('hidden/end', 'end')));
my @rest;
do { push @rest, map { "$_->{topic}=$_->{payload}" } $dash->messages(1) } until ($rest[-1] // 'hidden/end=end') eq 'hidden/end=end';
is($rest[-1], 'hidden/end=end', 'a filter that selects both streams goes on');
unlike("@rest", qr/after the revoke/, '... with what is left');
$s->sql('REVOKE SELECT ON secret FROM dash');
is($dash->ending, '0x87', 'where nothing is left that ends, too');

# ---- by membership, from PUBLIC, and by what an owner drops ----

$s->sql('GRANT SELECT ON telemetry TO readers; GRANT readers TO dash');
granted('dash', 'acme/#');
$s->sql('REVOKE readers FROM dash');
refused_at('dash', 'acme/#');
$s->sql('GRANT SELECT ON telemetry TO PUBLIC');
granted('dash', 'acme/#');
$s->sql('REVOKE SELECT ON telemetry FROM PUBLIC');
refused_at('dash', 'acme/#');
$s->sql('GRANT SELECT ON telemetry TO dash');
granted('dash', 'acme/#');
$s->sql('DROP OWNED BY dash');
refused_at('dash', 'acme/#');
pass('rights come and go by groups, PUBLIC and DROP OWNED');

# ---- sessions, shared subscriptions, the past ----

$s->sql('GRANT SELECT, INSERT ON telemetry TO dash; GRANT SELECT ON secret TO dash');
granted('dash', 'acme/#');
granted('dash', 'hidden/#');
my @session = (client_id => 'keeper', clean => 0, properties => [ [ 17, 600 ] ]);
my $k = role('dash', @session);
is(join(',', $k->subscribe([ [ '#', 1 ], [ '$share/g/#', 1 ] ])), '1,1', 'a session of a role');
$k->messages(1);
$k->disconnect(0);
$d1->publish_acked('acme/d1/t', 'while away');
$s->sql('REVOKE SELECT ON telemetry FROM dash');
refused_at('dash', 'acme/#');
$s->sql(q(SELECT fleetlog.publish('hidden/y', 'still mine')));
$k = role('dash', @session);
is(join(' ', map { $_->{payload} } $k->messages(2)), 'still mine still mine', 'what was stored meanwhile is handed out by the rights of now, what its group kept for it too');
$d1->publish_acked('acme/d1/t', 'not for it');
$s->sql(q(SELECT fleetlog.publish('hidden/z', 'live')));
is(join(' ', map { $_->{payload} } $k->messages(2)), 'live live', 'and what is live, a group\'s share too');
ok($k->quiet(0.5), 'and nothing else');
is(join(',', $k->subscribe([ '$s/beginning/acme/#', '$share/g/acme/#' ])), '135,135', 'the past and groups need the same right');
$k->disconnect(0);

# ---- row-level security ----

$s->sql(q(GRANT SELECT, INSERT ON telemetry TO other; ALTER TABLE telemetry ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON telemetry FOR SELECT USING (tenant = 'zeta')));
refused_at('other', 'acme/#');
is($b->publish_acked('acme/app/x', 'x'), 0x87, 'and from publishing');
like(can('other', 'subscribe', 'acme/#'), qr/^false: row-level security/, 'can() says why');
$s->sql('ALTER ROLE other BYPASSRLS');
granted('other', 'acme/#');
pass('who is not restricted is let in');
$s->sql('ALTER TABLE telemetry DISABLE ROW LEVEL SECURITY');

# ---- operators ----

my $chief = role('chief');
is(join(',', $chief->subscribe([ '#', 'hidden/#', '$SYS/#' ])), '0,0,0', 'a superuser may read everything');

# ---- SCRAM in AUTH ----

my $scram = $s->raw;
my $ack = FleetlogTest::Scram::log_in($scram, 'other', 'pw-other', 'scram');
is("$ack->{name} $ack->{reason}", 'CONNACK 0', 'a role proves its password without sending it');
is($scram->publish_acked('acme/app/s', 'x'), 0, 'and has its rights');
my $wrong = $s->raw;
$ack = FleetlogTest::Scram::log_in($wrong, 'other', 'pw-else', 'scram2');
is("$ack->{name} $ack->{reason}", 'CONNACK 134', 'a wrong one is refused');
$ack = FleetlogTest::Scram::log_in($wrong = $s->raw, 'bare', '', 'scram3');
is("$ack->{name} $ack->{reason}", 'CONNACK 134', 'and one of a role that has none');
$ack = FleetlogTest::Scram::log_in($wrong = $s->raw, 'old', 'pw-old', 'scram4');
is("$ack->{name} $ack->{reason}", 'CONNACK 134', 'and one that is no longer valid');

# ---- the role itself changes ----

$s->sql(q(ALTER ROLE other PASSWORD 'pw-new'));
is($scram->ending, '0x87', 'a new password ends what was opened with the old one');
is($b->ending, '0x87', '... by CONNECT as well');
refused('other', 'the old password');
$b = role('other', password => 'pw-new');
$s->sql('ALTER ROLE other NOLOGIN');
is($b->ending, '0x87', 'NOLOGIN ends it');
refused('other', 'NOLOGIN', password => 'pw-new');
$s->sql('ALTER ROLE other LOGIN');
$b = role('other', password => 'pw-new');
$s->sql('ALTER ROLE other RENAME TO another');
is($b->ending, '0x87', 'another name ends it');
$b = role('another', password => 'pw-new');
$s->sql('DROP OWNED BY another; DROP ROLE another');
is($b->ending, '0x87', 'DROP ROLE ends it');
refused('another', 'a role that is gone', password => 'pw-new');
$s->sql('REVOKE CONNECT ON DATABASE fleetlog FROM PUBLIC');
refused('dash', 'no CONNECT on the database');
like(can('dash', 'publish', 'hidden/x'), qr/^false: .*may not connect to the database/, 'can() tells that, too');
$s->sql('GRANT CONNECT ON DATABASE fleetlog TO PUBLIC');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
