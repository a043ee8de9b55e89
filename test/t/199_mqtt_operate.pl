# M9, V2, Q3: what an operator of MQTT sees without asking SQL twice: $SYS under Mosquitto's names, a log line for how each
# connection ended, and who is online.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('operate', conf => "fleetlog.workers = 2\nfleetlog.sys_interval = 1\nfleetlog.allow_anonymous = on\n");
$s->fleet(devices => 3);
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('kept'), fleetlog.create_state('kept_state');
SELECT fleetlog.mount('kept/', 'kept', state => 'kept_state');
CREATE ROLE ops LOGIN PASSWORD 'pw-ops' IN ROLE pg_monitor;
CREATE ROLE dash LOGIN PASSWORD 'pw-dash';
GRANT SELECT ON telemetry TO ops, dash;
CREATE ROLE chief LOGIN SUPERUSER PASSWORD 'pw-chief';
SQL

sub role { my ($role, %opt) = @_; my $c = $s->raw(%opt); my $ack = $c->login(client_id => "app-$role", user => $role, password => "pw-$role", %opt); is($ack->{reason}, 0, "$role is let in") or BAIL_OUT('a role was refused'); return $c; }
sub anonymous { my (%opt) = @_; my $c = $s->raw; $c->login(%opt); return $c; }

# ---- $SYS: who may ----

my $d1 = $s->device('d1');
is(join(',', $d1->subscribe([ '$SYS/#', '$SYS/broker/uptime' ])), '135,135', 'a device may not subscribe to $SYS');
my $anon = anonymous(client_id => 'anon');
is(join(',', $anon->subscribe([ '$SYS/#', 'kept/#' ])), '135,0', 'nor an anonymous client');
like($s->sql_error(q(SELECT fleetlog.allow('acme', 'subscribe', '$SYS/#'))), qr/is not below prefix|is not valid/, 'no rule of a tenant reaches there');
my $dash = role('dash');
is(join(',', $dash->subscribe([ '$SYS/#' ])), '135', 'nor may a role that is no operator');
my $ops = role('ops');
is(join(',', $ops->subscribe([ '$share/g/$SYS/#', '$s/beginning/$SYS/#' ])), '143,143', 'there is no group and no past of it');
is($ops->publish_acked('$SYS/broker/uptime', 'x'), 0x87, 'nobody publishes there');

# ---- what is there ----

# The values that a new subscription is told: until the last topic of the list.
sub values_of
{
    my ($c) = @_;
    my %got;
    until (exists $got{'load/bytes/sent/15min'})
    {
        my ($m) = $c->messages(1);
        BAIL_OUT('the values did not come') unless $m;
        (my $name = $m->{topic}) =~ s{^\$SYS/broker/}{};
        $got{$name} = $m;
    }
    return \%got;
}
# Until a value is there; those of all others go by.
sub value_becomes
{
    my ($c, $name, $is, $what) = @_;
    FleetlogTest::wait_until(sub { my ($m) = $c->messages(1); $m && $m->{topic} eq "\$SYS/broker/$name" && $is->($m->{payload}) }, $what);
    pass($what);
    return;
}

is(join(',', $ops->subscribe([ [ '$SYS/#', 1 ] ], properties => [ [ 11, 77 ] ])), '1', 'an operator may');
my $all = values_of($ops);
is(join(' ', sort grep { !m{^load/} } keys %$all), join(' ', sort 'bytes/received', 'bytes/sent', 'clients/connected', 'clients/disconnected', 'clients/expired', 'clients/maximum', 'clients/total',
        'heap/current', 'messages/received', 'messages/sent', 'publish/bytes/received', 'publish/bytes/sent', 'publish/messages/dropped', 'publish/messages/received', 'publish/messages/sent',
        'retained messages/count', 'subscriptions/count', 'uptime', 'version'), 'the names that Mosquitto has');
is(scalar(grep { m{^load/(?:connections|sockets|(?:messages|bytes|publish)/(?:received|sent)|publish/dropped)/(?:1|5|15)min$} } keys %$all), 27, 'the loads, too');
is(scalar(grep { !$_->{retain} || $_->{qos} || ($_->{properties}[0][1] // 0) != 77 } values %$all), 0, 'all retained, at QoS 0, with the subscription identifier');
is($all->{version}{payload}, 'fleetlog ' . $s->sql(q(SELECT default_version FROM pg_available_extensions WHERE name = 'fleetlog')), 'the version');
like($all->{uptime}{payload}, qr/^\d+ seconds$/, 'the uptime');
is($all->{'clients/connected'}{payload}, $s->sql('SELECT count(*) FROM fleetlog.stat_connection'), 'who is connected, at every front door');
is(scalar(grep { $_->{payload} !~ /^\d+(?:\.\d\d| seconds)?$/ } map { $all->{$_} } grep { $_ ne 'version' } keys %$all), 0, 'numbers all');

# ---- what changes ----

$d1->publish_acked('acme/d1/t', 'x' x 100) for 1 .. 3;
value_becomes($ops, 'publish/messages/received', sub { $_[0] >= $all->{'publish/messages/received'}{payload} + 3 }, 'what was published is counted');
value_becomes($ops, 'publish/bytes/received', sub { $_[0] >= 300 }, '... and its bytes');
my ($live) = $ops->messages(1);
is($live->{retain}, 0, 'what changes is not retained for who is there');
$s->sql(q(SELECT fleetlog.publish('kept/a', 'x', retain => true), fleetlog.publish('kept/b', 'x', retain => true)));
value_becomes($ops, 'retained messages/count', sub { $_[0] == 2 }, 'retained messages are counted');
my $d2 = $s->device('d2', clean => 0, properties => [ [ 17, 300 ] ]);
$d2->subscribe([ 'acme/d2/#', 'acme/d2/x' ]);
my $held = $s->sql(q(SELECT coalesce(sum(subscriptions), 0) FROM fleetlog.stat_worker WHERE kind = 'front_door'));
$d2->disconnect(0);
value_becomes($ops, 'clients/disconnected', sub { $_[0] == 1 }, 'who is away with a session is disconnected');
$ops->disconnect(0);
$ops = role('ops', client_id => 'second');
$ops->subscribe([ '$SYS/broker/subscriptions/+' ]);
value_becomes($ops, 'subscriptions/count', sub { $_[0] == $held }, 'and its subscriptions count');
$ops->disconnect(0);
$ops = role('ops', client_id => 'third');

# The options of a subscription, and a wildcard in front.
my $chief = role('chief');
$chief->subscribe([ '#', '+/broker/uptime', 'acme/#' ]);
$ops->subscribe([ [ '$SYS/broker/uptime', 0x20 ], [ '$SYS/+/uptime', 0x08 | 0x20 ] ]);
my ($first) = $ops->messages(1);
is("$first->{topic} $first->{retain}", '$SYS/broker/uptime 1', 'retain handling 2: nothing at first; then as published, one message for both filters');
my ($second) = $ops->messages(1);
isnt($second->{payload}, $first->{payload}, '... at each change');
$s->sql(q(SELECT fleetlog.publish('acme/end', 'end')));
my @seen;
do { push @seen, map { $_->{topic} } $chief->messages(1) } until ($seen[-1] // 'acme/end') eq 'acme/end';
is($seen[-1], 'acme/end', 'what everybody may read comes');
is(scalar(grep { m{^\$} } @seen), 0, 'a filter that begins with a wildcard selects none of it');

# A total does not step back when a front door begins anew.
my $before = $s->sql(q(SELECT sum(publish_in) FROM fleetlog.stat_worker WHERE kind = 'front_door'));
$s->sql(q(SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE kind = 'front_door'));
$s->wait_for(q(SELECT count(*) = 2 AND sum(publish_in) = 0 AND bool_and(state LIKE 'listening%') FROM fleetlog.stat_worker WHERE kind = 'front_door'), 't', 'new front doors');
$ops = role('ops');
$ops->subscribe([ '$SYS/broker/publish/messages/received' ]);
cmp_ok(($ops->messages(1))[0]{payload}, '>=', $before, 'totals go on over a restart of the workers');

# Switched off: who subscribes is told nothing, and hears of everything else.
$s->set_conf('fleetlog.sys_interval' => 0);
$s->wait_for('SHOW fleetlog.sys_interval', '0', 'the reload');
FleetlogTest::wait_until(sub { my $c = role('ops', client_id => 'off'); $c->subscribe([ '$SYS/broker/version', 'acme/off' ]); $s->sql(q(SELECT fleetlog.publish('acme/off', 'x'))); my ($m) = $c->messages(1); $c->disconnect(0); $m->{topic} eq 'acme/off' }, '$SYS to be off');
pass('sys_interval = 0 switches it off');

# ---- who is online ----

sub online { my ($where) = @_; return $s->sql("SELECT concat_ws('|', identity, tenant, device, coalesce(role, '-'), coalesce(client_id, '-'), online, since IS NOT NULL, session) FROM fleetlog.presence WHERE $where ORDER BY client_id"); }
$d1 = $s->device('d1', client_id => 'one');
is(online(q(device = 'd1')), 'acme/d1|acme|d1|-|one|t|t|f', 'presence: a device that is connected');
is(online(q(device = 'd2')), 'acme/d2|acme|d2|-|d2|f|t|t', 'one whose session waits for it');
is(online(q(device = 'd3')), 'acme/d3|acme|d3|-|-|f|f|f', 'one that was never seen');
is(online(q(role = 'ops' AND client_id = 'app-ops')), 'ops|ops|app-ops|t|t|f', 'an application');
$d1->disconnect(0);
$s->wait_for(q(SELECT NOT online AND client_id IS NULL FROM fleetlog.presence WHERE device = 'd1'), 't', 'it to be gone');
pass('... and gone');
like($s->sql_error('SET ROLE dash; SELECT * FROM fleetlog.presence'), qr/42501/, 'it is for operators');

# An identity and a client id of full length are shown whole.
my ($tenant, $device, $id) = ('t' x 63, 'd' x 128, 'c' x 60);
$s->sql("SELECT fleetlog.create_tenant('$tenant', 'long/'), fleetlog.create_device('$device', '$tenant', password => 'pw-long')");
my $long = $s->raw;
is($long->login(client_id => $id, user => "$tenant/$device", password => 'pw-long', clean => 0, properties => [ [ 17, 300 ] ])->{reason}, 0, 'a device with a long name');
is($s->sql("SELECT concat_ws(' ', tenant, device, client_id) FROM fleetlog.stat_session WHERE tenant = '$tenant'"), "$tenant $device $id", 'stat_session shows it whole');
$long->disconnect(0);
$s->node->restart;
$s->wait_for_mqtt;
$s->wait_for("SELECT client_id = '$id' AND NOT online FROM fleetlog.presence WHERE device = '$device'", 't', 'the session after a restart');
pass('also after a restart');

# ---- how connections end ----

sub now { return -s $s->node->logfile; }
sub logged { my ($pattern, $from, $what) = @_; $s->wait_for_log($pattern, $from, $what); pass($what); return; }

my $from = now();
my $c = $s->device('d1', client_id => 'mute', keep_alive => 1);
is($c->ending, '0x8D', 'a client that says nothing more');
logged(qr/LOG: .*client "mute" of device "acme\/d1" is gone: keep alive timeout \(0x8D\)\n.*HINT: .*PINGREQ/, $from, 'its end is logged, with the remedy');
$c = $s->device('d1', client_id => 'twice');
my $other = $s->device('d1', client_id => 'twice');
is($c->ending, '0x8E', 'one that is taken over');
logged(qr/client "twice" of device "acme\/d1" is gone: another connection has taken over \(0x8E\)\n.*HINT: .*same client identifier/, $from, 'so is that');
$other->close;
$c = $s->device('d1', client_id => 'rude');
$c->close;
logged(qr/client "rude" of device "acme\/d1" is gone: connection /, $from, 'and one without a DISCONNECT');
$c = $s->device('d1', client_id => 'unhappy');
$c->disconnect(0x83);
logged(qr/client "unhappy" of device "acme\/d1" is gone: the client has disconnected \(0x83\)/, $from, 'and a DISCONNECT that complains');
$c = $s->device('d1', client_id => 'ended');
$s->sql(q(SELECT fleetlog.disconnect('ended')));
logged(qr/client "ended" of device "acme\/d1" is gone: disconnected by an administrator \(0x98\)\n.*HINT: .*fleetlog\.audit/, $from, 'and what an operator did');
my $raw = $s->raw;
is($raw->login(client_id => 'liar', user => 'acme/d1', password => 'not-the-SeCrEt')->{reason}, 0x86, 'a login that is refused');
logged(qr/login of user "acme\/d1", client "liar" from .* was refused/, $from, 'is logged as such');
$c = $s->device('d1', client_id => 'polite');
$c->disconnect(0);
$s->raw->close;
$c = $s->device('d1', client_id => 'last');
$c->close;
logged(qr/client "last" of device/, $from, 'the last of them');
my $text = PostgreSQL::Test::Utils::slurp_file($s->node->logfile, $from);
unlike($text, qr/"polite"|client at .* is gone: connection/, 'a DISCONNECT is none, nor is who says nothing at all');
unlike($text, qr/SeCrEt/, 'no password stands in the log');
unlike($text, qr/"liar" .*is gone|client at .*is gone.*0x86/, 'a refused login has one line, not two');

# One client that flaps has one line; what was left out is told with the next one, a minute later.
$from = now();
for (1 .. 20) { $c = $s->device('d2', client_id => 'flaps'); $c->close; }
$s->wait_for(q(SELECT count(*) = 0 FROM fleetlog.stat_connection WHERE client_id = 'flaps'), 't', 'the last to be gone');
$s->set_conf('fleetlog.sys_interval' => 0, 'fleetlog.clock_offset' => '70s');
$s->wait_for('SHOW fleetlog.clock_offset', '70s', 'the clock');
my ($lines, $left) = (0, 0);
FleetlogTest::wait_until(
    sub {
        $c = $s->device('d2', client_id => 'flaps');
        $c->close;
        $text = PostgreSQL::Test::Utils::slurp_file($s->node->logfile, $from);
        $lines = () = $text =~ /client "flaps" of device/g;
        ($left) = $text =~ /ended (\d+) more times/;
        return defined $left;
    },
    'what was left out to be told');
cmp_ok($lines, '<', 20, 'a client that flaps has a line a minute at each front door, and then the number of the others');

# A flood from who has not logged in: every line is written or counted.
$from = now();
for (1 .. 150) { my $g = $s->raw; $g->send_raw("GET / HTTP/1.1\r\n\r\n"); $g->ending; }
$s->set_conf('fleetlog.sys_interval' => 0, 'fleetlog.clock_offset' => '140s');
FleetlogTest::wait_until(
    sub {
        $text = PostgreSQL::Test::Utils::slurp_file($s->node->logfile, $from);
        my $n = () = $text =~ /client at \S+ sent a packet that is refused/g;
        $n += $_ for $text =~ /left out (\d+) log lines about errors of protocol/g;
        $n == 150;
    },
    'the flood to be accounted for');
cmp_ok(scalar(() = $text =~ /client at \S+ sent a packet/g), '<', 150, 'a flood is cut short, and what was left out is counted when it is over');

# All of them, and none.
$s->set_conf('fleetlog.log_connections' => 'all');
$s->wait_for('SHOW fleetlog.log_connections', 'all', 'the reload');
$from = now();
FleetlogTest::wait_until(sub { $c = $s->device('d3', client_id => 'shown'); $c->disconnect(0); select undef, undef, undef, 0.05; PostgreSQL::Test::Utils::slurp_file($s->node->logfile, $from) =~ /client "shown" of device "acme\/d3" was let in from 127\.0\.0\.1:\d+, MQTT 5\.0/ }, 'who is let in to be logged');
logged(qr/client "shown" of device "acme\/d3" is gone: the client has disconnected\n/, $from, 'all: every end');
$s->set_conf('fleetlog.log_connections' => 'off');
$s->wait_for('SHOW fleetlog.log_connections', 'off', 'the reload');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
