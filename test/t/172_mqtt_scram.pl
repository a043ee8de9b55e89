# M1, I: enhanced authentication with SCRAM-SHA-256: the password never travels, both sides prove to know it, names cannot
# be found out, and an open connection may prove itself again.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Scram qw(auth_packet prove);

my $s = FleetlogTest->new('scram');
$s->fleet(devices => 2);
my $METHOD = 'SCRAM-SHA-256';
my $count = 0;

# CONNECT up to the server's first message: (client, the first message, the server's answer).
sub begin
{
    my ($user, %opt) = @_;
    my $c = $s->raw;
    my $first = $opt{first} // ('n,,n=' . $user . ',r=nonce' . ++$count);
    $c->send_raw($c->connect_packet(client_id => $opt{client_id} // "scram$count", properties => [ [ 21, $opt{method} // $METHOD ], [ 22, $first ] ], %{ $opt{connect} // {} }));
    return ($c, $first, $c->read_packet);
}

sub log_in
{
    my ($user, $password, %opt) = @_;
    my ($c, $first, $answer) = begin($user, %opt);
    return ($c, $answer) unless ref $answer && $answer->{name} eq 'AUTH';
    my ($final, $server_final) = prove($first, FleetlogTest::Mqtt::property($answer, 22), $password, %opt);
    $c->send_raw(auth_packet(0x18, $final));
    return ($c, $c->read_packet, $server_final);
}

# ---- it works ----

my ($c, $ack, $server_final) = log_in('acme/d1', 'pw-d1');
is("$ack->{name} $ack->{reason}", 'CONNACK 0', 'logged in');
is(FleetlogTest::Mqtt::property($ack, 21), $METHOD, 'CONNACK repeats the method');
is(FleetlogTest::Mqtt::property($ack, 22), $server_final, 'and the server has proved that it knows the password');
is($c->publish_acked('acme/d1/t', 'x'), 0, 'it publishes as its device');
is($c->publish_acked('acme/d2/t', 'x'), 0x87, 'and as no other');
(my $bare, $ack) = log_in('d2', 'pw-d2', first => 'y,,n=d2,r=abc');
is($ack->{name}, 'CONNACK', 'a client that could bind the channel');
isnt($ack->{reason}, 0, 'must say so in its final message, too');
(my $d2, $ack) = log_in('d2', 'pw-d2', first => 'y,,n=d2,r=abc', binding => 'eSws');
is($ack->{reason}, 0, 'then it is let in');
($d2, $ack) = log_in('', 'pw-d2', connect => { user => 'acme/d2' });
is($ack->{reason}, 0, 'the name may stand in CONNECT alone');

# ---- it refuses ----

for my $case (
    [ 'a wrong password', 'acme/d1', 'pw-d2' ],
    [ 'an unknown device', 'acme/nobody', 'pw-d1' ],
    [ 'a nonce of its own', 'acme/d1', 'pw-d1', nonce => 'noncenonce' ],
    [ 'another header than before', 'acme/d1', 'pw-d1', binding => 'eSws' ])
{
    my ($what, @how) = @$case;
    my ($one, $no) = log_in(@how);
    is("$no->{name} $no->{reason}", 'CONNACK 134', "$what: 0x86");
    is($one->ending, 'closed', 'and the end');
}
# The salt of a name that does not exist is always the same, like that of one that does.
my %salt;
for my $user ('acme/d1', 'acme/nobody', 'acme/nobody2') { for (1, 2) { my ($one, undef, $a) = begin($user); $salt{$user}{ FleetlogTest::Mqtt::property($a, 22) =~ /(s=[^,]+,i=\d+)/ ? $1 : 'none' } = 1; } }
is(join(' ', map { scalar keys %{ $salt{$_} } } sort keys %salt), '1 1 1', 'a name has one salt, whether there is such a device or not');
is(scalar(keys %{ { map { %$_ } values %salt } }), 3, 'and each its own');

for my $case (
    [ 'another method', 0x8C, method => 'SCRAM-SHA-1' ],
    [ 'channel binding', 0x87, first => 'p=tls-unique,,n=acme/d1,r=x' ],
    [ 'somebody to act for', 0x87, first => 'n,a=root,n=acme/d1,r=x' ],
    [ 'no message', 0x87, first => '' ],
    [ 'two names', 0x87, connect => { user => 'acme/d2' } ])
{
    my ($what, $reason, @how) = @$case;
    my ($one, undef, $no) = begin('acme/d1', @how);
    is("$no->{name} $no->{reason}", "CONNACK $reason", $what);
}
my ($early) = begin('acme/d1');
$early->publish('acme/d1/early', 'x');
is($early->ending, '0x82', 'MQTT-3.1.2-30: nothing but AUTH before CONNACK');
my ($odd) = begin('acme/d1');
$odd->send_raw(auth_packet(0x18, 'x', 'PLAIN'));
is($odd->ending, '0x82', 'MQTT-4.12.0-5: another method on the way');
my $plain = $s->device('d1', client_id => 'plain');
$plain->send_raw(auth_packet(0x19, 'n,,n=acme/d1,r=x'));
is($plain->ending, '0x82', 'MQTT-4.12.0-7: AUTH without a method');

# A password that is revoked between the two messages.
my ($late, $first, $answer) = begin('acme/d2');
$s->sql("SELECT fleetlog.revoke_device('acme/d2')");
my ($final) = prove($first, FleetlogTest::Mqtt::property($answer, 22), 'pw-d2');
$late->send_raw(auth_packet(0x18, $final));
is($late->ending, '0x86', 'revoked in the middle of the login');

# ---- again, while it is open ----

sub again
{
    my ($client, $user, $password) = @_;
    my $message = "n,,n=$user,r=again" . ++$count;
    $client->send_raw(auth_packet(0x19, $message));
    my $a = $client->expect('AUTH');
    my ($text, $theirs) = prove($message, FleetlogTest::Mqtt::property($a, 22), $password);
    $client->send_raw(auth_packet(0x18, $text));
    return $theirs;
}
my $theirs = again($c, 'acme/d1', 'pw-d1');
my $done = $c->expect('AUTH');
is("$done->{reason} " . FleetlogTest::Mqtt::property($done, 22), "0 $theirs", 'an open connection proves itself again');
is($c->publish_acked('acme/d1/t', 'y'), 0, 'and goes on');
again($c, 'acme/d1', 'wrong');
is($c->ending, '0x87', 'one that cannot is disconnected');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
