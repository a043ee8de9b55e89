# M1, I: session takeover within and across workers, wills, log-in and its refusals.  Cases O24 to O26, O32, O34.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('takeover', conf => "fleetlog.workers = 3\n");
$s->fleet(devices => 3);
# Before anything was ever appended: a stream that comes behind the subscription, and has its first record when front doors hear of it.
{
    my $early = $s->device('d1', client_id => 'early');
    $early->subscribe([ [ 'acme/d1/fresh/#', 1 ] ]);
    my @doors = split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door'");
    is(kill('STOP', @doors), 3, 'the front doors stand still');
    $s->sql("SELECT fleetlog.create_stream('fresh'); SELECT fleetlog.mount('acme/d1/fresh/', 'fresh')");
    $s->sql("SELECT fleetlog.append('fresh', 'acme/d1/fresh/x', 'first')");
    kill 'CONT', @doors;
    is(join(',', map { $_->{payload} } $early->messages(1)), 'first', 'the first record of all is delivered');
    $early->disconnect;
}
my $listener = $s->device('d1', client_id => 'listener');
$listener->subscribe([ [ 'acme/d1/will', 1 ] ]);
my %will = (will => { topic => 'acme/d1/will', payload => 'w', qos => 1 });

sub wills
{
    my ($count, $timeout) = @_;
    return scalar grep { $_->{topic} eq 'acme/d1/will' } $listener->messages($count, $timeout);
}

# Connections land on workers as the kernel likes; twenty times is often enough for every pair.
for my $n (1 .. 20)
{
    my $a = $s->device('d1', client_id => 'x', %will);
    my $b = $s->device('d1', client_id => 'x');
    is($a->ending, '0x8E', "O26: the first connection is told 0x8E ($n)");
    $b->ping;
    is(wills(1), 1, "O25: its will is published ($n)");
    $b->disconnect;
}
{
    my $a = $s->device('d1', client_id => 'x', version => 4, %will);
    my $b = $s->device('d1', client_id => 'x', version => 4);
    is($a->ending, 'closed', 'O24: 3.1.1: closed');
    is(wills(1), 1, 'O24: 3.1.1: its will is published');
    $b->disconnect;
}
# Another device with the same client id is another client.
{
    my $a = $s->device('d1', client_id => 'same');
    my $b = $s->device('d2', client_id => 'same');
    $a->ping;
    $b->ping;
    pass('client ids are per device');
}
# O32: no session expiry: a will with delay goes out when the connection ends.
{
    my $a = $s->device('d1', client_id => 'delay', will => { topic => 'acme/d1/will', payload => 'd', qos => 1, properties => [ [ 24, 30 ] ] });
    $a->reset;
    is(wills(1), 1, 'O32: the session ends with the connection, so the will goes out then');
}
# O34: DISCONNECT discards the will, 0x04 asks for it, a lost connection publishes it.
{
    my $a = $s->device('d1', client_id => 'y', %will);
    $a->disconnect;
    $a = $s->device('d1', client_id => 'y', %will);
    $a->disconnect(4);
    is(wills(1), 1, 'DISCONNECT 0x04 publishes the will');
    ok($listener->quiet(1), 'and 0x00 has discarded it');
    $a = $s->device('d1', client_id => 'y', %will);
    $a->reset;
    is(wills(1), 1, 'O34: a will after the lost connection');
    ok($listener->quiet(1), 'and only one');
}
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/will' AND device = 'd1'"), '24', 'every will is a record of its device');
# A will outside the device's rights is refused at CONNECT, before anybody is taken over.
{
    my $old = $s->device('d1', client_id => 'z');

    for my $version (4, 5)
    {
        my $ack = $s->raw(version => $version)->login(client_id => 'z', user => 'acme/d1', password => 'pw-d1', will => { topic => 'acme/d2/will', payload => 'x' });
        is(ref $ack ? $ack->{reason} : $ack, $version == 5 ? 0x87 : 5, "a will on another device's topic is refused at CONNECT (version $version)");
    }
    ok($old->ping, 'and takes nobody over');
    $s->device('d2')->publish_acked('acme/d2/t', 'after');
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d2/will'"), '0', 'nor is it published');
}

{
    my @user = ([ 38, 'b', '1' ], [ 38, 'a', '2' ], [ 38, 'b', '3' ]);
    my $a = $s->device('d1', client_id => 'y', will => { topic => 'acme/d1/will', payload => 'p', qos => 1, properties => \@user });
    $a->reset;
    my ($m) = $listener->messages(1);
    is(join(' ', map { "$_->[1]=$_->[2]" } grep { $_->[0] == 38 } @{ $m->{properties} }), 'b=1 a=2 b=3', 'user properties of a will are delivered in order');
    $a = $s->device('d1', client_id => 'y', version => 4, %will);
    $a->disconnect;
    is(wills(1, 2), 0, '3.1.1: DISCONNECT discards the will');
}

# Logging in.  A refusal ends the connection, with nothing behind it.
sub login
{
    my ($version, %opt) = @_;
    my $c = $s->raw(version => $version);
    my $ack = $c->login(%opt);
    return $ack // 'nothing' unless ref $ack;
    my $end = $ack->{reason} ? $c->ending : 'closed';
    return $end eq 'closed' ? $ack->{reason} : "$ack->{reason}, but $end";
}
like(login(5, client_id => 'a'), qr/^13[45]$/, 'anonymous is refused');
like(login(4, client_id => 'a'), qr/^[45]$/, 'in 3.1.1 too');
like(login(5, client_id => 'a', user => 'acme/d1', password => 'wrong'), qr/^13[45]$/, 'wrong password');
like(login(4, client_id => 'a', user => 'acme/d1', password => 'wrong'), qr/^[45]$/, 'wrong password, 3.1.1');
like(login(5, client_id => 'a', user => 'acme/nobody', password => 'pw-d1'), qr/^13[45]$/, 'unknown device');
like(login(5, client_id => 'a', user => 'other/d1', password => 'pw-d1'), qr/^13[45]$/, 'unknown tenant');
like(login(5, client_id => 'a', user => 'acme/d1'), qr/^13[45]$/, 'no password');
like(login(5, client_id => 'a', user => 'acme/d1', password => ''), qr/^13[45]$/, 'empty password');
{
    my $c = $s->raw;
    $c->send_raw($c->connect_packet(client_id => 'a', user => 'acme/d1', password => 'wrong') . $c->publish_packet('acme/d1/behind', 'x', qos => 1, pid => 1));
    like($c->ending, qr/^0x8[67]$/, 'what follows a refused CONNECT is not answered');
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/behind'"), '0', 'nor stored');
}
for my $version (4, 5)
{
    for my $id ('a', unpack '(A23)*', join '', 0 .. 9, 'a' .. 'z', 'A' .. 'Z')
    {
        is(login($version, client_id => $id, user => 'acme/d2', password => 'pw-d2'), 0, "version $version: a client may be called $id");
    }
}
is(login(5, client_id => 'a', user => 'd1', password => 'pw-d1'), 0, 'the bare id where it is unambiguous');
$s->sql("SELECT fleetlog.create_tenant('zeta', 'zeta/'), fleetlog.create_device('d1', 'zeta', password => 'pw-d1')");
FleetlogTest::wait_until(sub { login(5, client_id => 'a', user => 'zeta/d1', password => 'pw-d1') eq '0' }, 'the new device to log in');
like(login(5, client_id => 'a', user => 'd1', password => 'pw-d1'), qr/^13[45]$/, 'ambiguous bare id is refused');
# A client without id gets one.
{
    my $c = $s->raw;
    my $ack = $c->login(client_id => '', user => 'acme/d2', password => 'pw-d2');
    is($ack->{reason}, 0, 'no client id');
    isnt(FleetlogTest::Mqtt::property($ack, 18) // '', '', 'one is assigned');
    my $other = $s->raw;
    isnt(FleetlogTest::Mqtt::property($other->login(client_id => '', user => 'acme/d2', password => 'pw-d2'), 18), FleetlogTest::Mqtt::property($ack, 18), 'and not the same twice');
    $c->ping;
}
is(login(4, client_id => '', clean => 0, user => 'acme/d2', password => 'pw-d2'), 2, '3.1.1: no client id with clean session 0');

# A session is there, and the log-in is refused.
{
    my %kept = (client_id => 'kept', user => 'acme/d2', password => 'pw-d2', clean => 0);
    $s->raw->login(%kept, properties => [ [ 17, 60 ] ]);
    my $ack = $s->raw->login(%kept, properties => [ [ 17, 60 ], [ 21, 'ANOTHER-METHOD' ] ]);
    is("$ack->{reason} $ack->{session_present}", '140 0', 'a refusal has Session Present 0');
    is($s->raw->login(%kept, properties => [ [ 17, 60 ] ])->{session_present}, 1, 'also where a session is there');
}

# Revocation closes open connections within a second, a new password takes effect at once.
my $victim = $s->device('d3');
my $listening = $s->device('d3', client_id => 'second');
$s->sql("SELECT fleetlog.revoke_device('acme/d3', 'lost')");
like($victim->ending, qr/^(0x87|0x98|closed)$/, 'revoked: closed');
like($listening->ending, qr/^(0x87|0x98|closed)$/, 'revoked: each of its connections');
like(login(5, client_id => 'a', user => 'acme/d3', password => 'pw-d3'), qr/^13[458]$/, 'revoked: no new log-in');
$s->sql("SELECT fleetlog.set_password('acme/d2', 'new secret')");
FleetlogTest::wait_until(sub { login(5, client_id => 'a', user => 'acme/d2', password => 'new secret') eq '0' }, 'the new password');
like(login(5, client_id => 'a', user => 'acme/d2', password => 'pw-d2'), qr/^13[45]$/, 'the old password is dead');
unlike(PostgreSQL::Test::Utils::slurp_file($s->node->logfile), qr/pw-d[123]|new secret/, 'no password in the log');
is(FleetlogTest::Mqtt::unasked(), '', 'no refusal tells what nobody asked for');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
