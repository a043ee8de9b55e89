# M8: the limits of a tenant and of a mount, each at its limit and one beyond it, with its reason code; and that MQTT 5
# clients are told in words, where they want to hear it and it does not make the packet too large (MQTT-3.1.2-29).
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('quotas');
$s->fleet(devices => 3);
$s->sql(<<'SQL');
SELECT fleetlog.create_tenant('small', 'small/', max_packet_bytes => 2000, max_inflight => 2, max_topic_levels => 4, max_subscriptions => 3,
	max_wildcard_subscriptions => 1, max_session_expiry => '100 s', max_connections => 2, max_sessions => 2);
SELECT fleetlog.create_device('d1', 'small', password => 'pw-d1');
SELECT fleetlog.mount('small/', 'telemetry');
SELECT fleetlog.mount('acme/d1/short/', 'telemetry', max_payload_bytes => 100, max_topic_levels => 5);
SQL

my @small = (user => 'small/d1', password => 'pw-d1');

sub words { return FleetlogTest::Mqtt::property($_[0], 31) // ''; }
sub answer { my ($p) = @_; return ref $p ? sprintf('%s %02X: %s', $p->{name}, $p->{reason} // $p->{reasons}[0], words($p)) : $p // 'nothing'; }
sub reply { my ($c, @p) = @_; $c->publish(@p); return answer($c->read_packet); }

# SUBSCRIBE to one filter, and its answer.
sub ask
{
    my ($c, $filter, %opt) = @_;
    my $pid = $c->next_pid;
    $c->send_raw(FleetlogTest::Mqtt::packet(0x82, pack('n', $pid) . FleetlogTest::Mqtt::properties([]) . FleetlogTest::Mqtt::str($filter) . "\1"));
    return answer($c->expect('SUBACK'));
}

# ---- a tenant ----

my $c = $s->raw;
my $ack = $c->login(client_id => 'one', @small, clean => 0, properties => [ [ 17, 3600 ] ]);
my %p = map { $_->[0] => $_->[1] } @{ $ack->{properties} };
is("$ack->{reason} $p{33} $p{39} $p{17}", '0 2 2000 100', 'max_inflight, max_packet_bytes and max_session_expiry are announced');

my $room = 2000 - length $c->publish_packet('small/d1/t', '', qos => 1, pid => 1);
my $grow = length(FleetlogTest::Mqtt::varlen(1990)) - 1;
is($c->publish_acked('small/d1/t', 'x' x ($room - $grow)), 0, 'max_packet_bytes: a packet of as many bytes is taken');

is($c->publish_acked('small/d1/3/4', 'x'), 0, 'max_topic_levels: as many levels are taken');
is(reply($c, 'small/d1/3/4/5', 'x', qos => 1), 'PUBACK 90: too many topic levels', 'max_topic_levels: one more is 0x90');
is(reply($c, 'small/d1/3/4/5', 'x', qos => 2), 'PUBREC 90: too many topic levels', 'and at QoS 2');
is(ask($c, 'small/d1/3/4'), 'SUBACK 01: ', 'a filter of as many levels is granted');
is(ask($c, 'small/d1/3/4/5'), 'SUBACK 8F: the filter has too many levels', 'one more is 0x8F');

is(ask($c, 'small/d1/+'), 'SUBACK 01: ', 'max_wildcard_subscriptions: as many are granted');
is(ask($c, 'small/d1/#'), 'SUBACK 97: it holds as many subscriptions with wildcards as it may', 'max_wildcard_subscriptions: one more is 0x97');
is(ask($c, 'small/d1/+'), 'SUBACK 01: ', 'the same one again is none more');
is(ask($c, 'small/d1/a'), 'SUBACK 01: ', 'max_subscriptions: as many are granted');
is(ask($c, 'small/d1/b'), 'SUBACK 97: it holds as many subscriptions as it may', 'max_subscriptions: one more is 0x97');
is(ask($c, 'acme/d1/b'), 'SUBACK 87: it is outside the tenant\'s prefix', 'what is not allowed is told, too');
is(join(',', $c->unsubscribe('small/d1/a')), '0', 'one subscription less');
is(ask($c, 'small/d1/b'), 'SUBACK 01: ', 'makes room for another one');

# max_inflight: what waits for PUBREL is in flight.
my $d = $s->raw;
is($d->login(client_id => 'two', @small)->{reason}, 0, 'max_connections: as many are let in');
$d->publish('small/d1/t', 'x', qos => 2, pid => $_) for 1, 2;
is(join(' ', map { $d->expect('PUBREC')->{reason} } 1, 2), '0 0', 'max_inflight: as many are taken');
is(reply($d, 'small/d1/t', 'x', qos => 2, pid => 3), 'DISCONNECT 93: receive maximum exceeded', 'max_inflight: one more is 0x93');
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE identity LIKE 'small/%'");

$d = $s->raw;
is($d->login(client_id => 'two', @small, clean => 0, properties => [ [ 17, 3600 ] ])->{reason}, 0, 'max_connections and max_sessions: as many are let in');
is(answer($s->raw->login(client_id => 'three', @small)), 'CONNACK 97: its tenant has as many connections as it may have', 'max_connections: one more is 0x97');
is($s->device('d2')->publish_acked('acme/d2/t', 'x'), 0, 'another tenant has its own limits');
my $again = $s->raw;
is($again->login(client_id => 'two', @small, clean => 0, properties => [ [ 17, 3600 ] ])->{session_present}, 1, 'who takes over its own connection is none more');
is($d->ending, '0x8E', 'from the one before');
$again->disconnect;
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE identity LIKE 'small/%'");
is(answer($s->raw->login(client_id => 'three', @small, clean => 0, properties => [ [ 17, 3600 ] ])), 'CONNACK 97: its tenant has as many sessions as it may have',
    'max_sessions: one more is 0x97, also where the others are not connected');
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE identity LIKE 'small/%'");
$again = $s->raw;
is($again->login(client_id => 'two', @small, clean => 1, properties => [ [ 17, 3600 ] ])->{reason}, 0, 'a session that replaces one is none more');
$again->disconnect;
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE identity LIKE 'small/%'");
$again = $s->raw;
is($again->login(client_id => 'two', @small)->{reason}, 0, 'a connection without one ends its own');
$again->disconnect;
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE identity LIKE 'small/%'");
$again = $s->raw;
is($again->login(client_id => 'three', @small, clean => 0, properties => [ [ 17, 3600 ] ])->{reason}, 0, 'and that makes room for one');
$again->disconnect;

# Counted again from the journal when the server starts.
$s->node->restart;
$s->wait_for_mqtt;
is(answer($s->raw->login(client_id => 'four', @small, clean => 0, properties => [ [ 17, 3600 ] ])), 'CONNACK 97: its tenant has as many sessions as it may have',
    'max_sessions holds across a restart');
$s->sql("SELECT fleetlog.alter_tenant('small', max_sessions => 3, max_connections => 0)");
my $four;
FleetlogTest::wait_until(sub { $four = $s->raw; return $four->login(client_id => 'four', @small, clean => 0, properties => [ [ 17, 3600 ] ])->{reason} == 0; }, 'a higher limit');
my @many = map { my $one = $s->raw; $one->login(client_id => "m$_", @small); $one } 1 .. 5;
is(scalar(grep { $_->ping } @many), 5, 'max_connections 0: no limit');
my $big = $many[0];
$big->publish('small/d1/t', 'x' x ($room - $grow + 1), qos => 1);
is(answer($big->read_packet), 'DISCONNECT 95: packet is larger than allowed', 'max_packet_bytes: one more is 0x95');

# ---- a mount ----

my $m = $s->device('d1', client_id => 'm');
is($m->publish_acked('acme/d1/short/t', 'x' x 100), 0, 'max_payload_bytes: as many are taken');
is(reply($m, 'acme/d1/short/t', 'x' x 101, qos => 1), 'PUBACK 97: quota exceeded', 'max_payload_bytes: one more is 0x97');
is($m->publish_acked('acme/d1/short/4/5', 'x'), 0, 'max_topic_levels of a mount: as many are taken');
is(reply($m, 'acme/d1/short/4/5/6', 'x', qos => 1), 'PUBACK 90: the topic has more levels than its mount takes', 'max_topic_levels of a mount: one more is 0x90');
is($m->publish_acked('acme/d1/other/4/5/6', 'x'), 0, 'another mount has its own limits');
is($s->sql("SELECT count(*) FROM telemetry WHERE key LIKE 'acme/d1/short/%'"), 2, 'nothing of what was refused is stored');
$s->sql("SELECT fleetlog.alter_mount('acme/d1/short/', max_payload_bytes => 0, max_topic_levels => 0)");
FleetlogTest::wait_until(sub { $m->publish_acked('acme/d1/short/4/5/6', 'x' x 101) == 0 }, 'limits that are taken away');

# ---- who is told in words ----

my $quiet = $s->device('d1', client_id => 'quiet', properties => [ [ 23, 0 ] ]);
is(reply($quiet, 'elsewhere/t', 'x', qos => 1), 'PUBACK 87: ', 'Request Problem Information 0: PUBACK has the code alone');
is(reply($quiet, 'elsewhere/t', 'x', qos => 2), 'PUBREC 87: ', 'and PUBREC');
is(ask($quiet, 'elsewhere/#'), 'SUBACK 87: ', 'and SUBACK');

# To the byte: a client that takes as many as the refusal has with its words, and one that takes one less.
my $clients = 0;
sub fits
{
    my ($ask, $less, $size) = @_;
    return $ask->($s->device('d1', client_id => 'fits' . $clients++, properties => [ [ 39, ($size // 1000) - $less ] ]));
}
sub refused { my ($c, @p) = @_; $c->publish('elsewhere/t', 'x', @p); return $c->read_packet; }
sub subscribed { my ($c) = @_; $c->send_raw(pack 'H*', '820c000100' . '0006' . unpack('H*', 'else/t') . '01'); return $c->expect('SUBACK'); }
sub ended { my ($c) = @_; $c->send_raw($c->connect_packet(client_id => 'x')); return $c->read_packet; }
my ($puback, $pubrec) = (sub { refused($_[0], qos => 1) }, sub { refused($_[0], qos => 2) });
my %full = (PUBACK => fits($puback, 0), PUBREC => fits($pubrec, 0), SUBACK => fits(\&subscribed, 0), DISCONNECT => fits(\&ended, 0));
isnt(words($full{$_}), '', "a $_ that refuses says why in words") for sort keys %full;
my %size = map { $_ => length $full{$_}{raw} } keys %full;
for my $less (0, 1)
{
    my %want = map { $_ => $less ? answer({ %{ $full{$_} }, properties => [] }) : answer($full{$_}) } keys %full;
    is(answer(fits($puback, $less, $size{PUBACK})), $want{PUBACK}, "MQTT-3.4.2-2: PUBACK with words where they fit, $less too large");
    is(answer(fits($pubrec, $less, $size{PUBREC})), $want{PUBREC}, "MQTT-3.5.2-2: PUBREC with words where they fit, $less too large");
    is(answer(fits(\&subscribed, $less, $size{SUBACK})), $want{SUBACK}, "MQTT-3.9.2-1: SUBACK with words where they fit, $less too large");
    is(answer(fits(\&ended, $less, $size{DISCONNECT})), $want{DISCONNECT}, "MQTT-3.14.2-3: DISCONNECT with words where they fit, $less too large");
}
my $rejected = $s->raw->login(client_id => 'x', user => 'acme/d1', password => 'pw-d1', properties => [ [ 21, 'NONE' ] ]);
isnt(words($rejected), '', 'CONNACK has words');
for my $less (0, 1)
{
    my $got = $s->raw->login(client_id => 'x', user => 'acme/d1', password => 'pw-d1', properties => [ [ 21, 'NONE' ], [ 39, length($rejected->{raw}) - $less ] ]);
    is(answer($got), sprintf('CONNACK 8C: %s', $less ? '' : words($rejected)), "MQTT-3.2.2-19: CONNACK with words where they fit, $less too large");
}
is(answer($s->raw->login(client_id => 'x', user => 'acme/d1', password => 'wrong')), 'CONNACK 86: ', 'what is wrong with a log-in is not told');
my $told = $s->device('d1', client_id => 'told');
$s->sql('ALTER SYSTEM SET fleetlog.reason_strings = off');
$s->sql('SELECT pg_reload_conf()');
FleetlogTest::wait_until(sub { reply($told, 'elsewhere/t', 'x', qos => 1) eq 'PUBACK 87: ' }, 'the setting to say nothing');
is(ask($told, 'elsewhere/#'), 'SUBACK 87: ', 'reason_strings off: codes alone');
my $v3 = $s->device('d1', client_id => 'v3', version => 4);
is(join(',', $v3->subscribe([ 'elsewhere/#' ])), '128', '3.1.1 has nothing but a code');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
