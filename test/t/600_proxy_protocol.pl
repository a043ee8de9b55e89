# Issue 5.6, M2: IPv6 listeners, and the PROXY protocol (version 2): believed from configured addresses only, wanted from
# them always, and no way around the address that a client has.
use strict;
use warnings;
use Test::More;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);
use FleetlogTest;

my $SIGNATURE = "\r\n\r\n\0\r\nQUIT\n";
my $s = FleetlogTest->new('proxy', conf => "fleetlog.allow_anonymous = on\nfleetlog.workers = 1\n");
my $n = 0;

sub header4 { my ($from, $port) = @_; return $SIGNATURE . "\x21\x11" . pack('n/a*', inet_aton($from) . inet_aton('10.0.0.1') . pack('nn', $port, 1883)); }
sub header6 { my ($from, $port) = @_; return $SIGNATURE . "\x21\x21" . pack('n/a*', inet_pton(AF_INET6, $from) . inet_pton(AF_INET6, '::1') . pack('nn', $port, 1883)); }
sub local_header { return $SIGNATURE . "\x20\x00\0\0"; }

# Sends a header, in pieces of so many bytes, and logs in: the peer that the view shows, or how it ended.
sub peer_of
{
    my ($header, %opt) = @_;
    my $c = FleetlogTest::Mqtt->open($opt{port} // $s->port);
    my $id = 'p' . ++$n;
    my $bytes = $header . $c->connect_packet(client_id => $id);

    while (length $bytes) { $c->send_raw(substr $bytes, 0, $opt{piece} // length $bytes, '') or last; }
    my $ack = $c->read_packet;
    my $peer = $ack // 'nothing';
    if (ref $ack) { FleetlogTest::wait_until(sub { ($peer = $s->sql("SELECT peer FROM fleetlog.stat_connection WHERE client_id = '$id'")) ne '' }, "$id in the view"); }
    if (ref $ack) { $c->ping; $c->disconnect; }
    return $peer;
}

# Closed by default: the header is not MQTT, so it is refused like any rubbish.
is(peer_of(header4('192.0.2.7', 4711)), 'closed', 'without the setting a PROXY header is refused');
like(peer_of(''), qr/^127\.0\.0\.1:\d+$/, 'and who connects is shown with his own address');

my $six = PostgreSQL::Test::Cluster::get_free_port();
$s->set_conf('fleetlog.proxy_protocol_from' => '127.0.0.0/8, ::1', 'fleetlog.mqtt_listen' => '127.0.0.1:' . $s->port . ",[::1]:$six");
FleetlogTest::wait_until(sub { peer_of(header4('192.0.2.7', 4711)) eq '192.0.2.7:4711' }, 'the setting to be taken');
pass('from a configured address the client is the one that the header names');
is(peer_of(header6('2001:db8::7', 4712)), '[2001:db8::7]:4712', 'an IPv6 client behind an IPv4 balancer');
is(peer_of(header4('192.0.2.8', 1), piece => 1), '192.0.2.8:1', 'a header that comes byte by byte');
like(peer_of(local_header()), qr/^127\.0\.0\.1:\d+$/, 'LOCAL: the balancer speaks for itself');
is(peer_of(''), 'closed', 'a balancer that sends no header is refused');
is(peer_of("PROXY TCP4 192.0.2.7 10.0.0.1 4711 1883\r\n"), 'closed', 'version 1 is refused');
is(peer_of(substr(header4('192.0.2.7', 1), 0, 12) . "\x21\x11\xff\xff" . 'x' x 2000), 'closed', 'a header of 65,535 bytes is refused');

SKIP:
{
    my $socket;
    skip('this machine has no IPv6', 2) unless socket($socket, AF_INET6, SOCK_STREAM, 0) && connect($socket, pack_sockaddr_in6($six, inet_pton(AF_INET6, '::1')));
    my $c = bless { socket => $socket, in => '', version => 5, pid => 0, closed => 0 }, 'FleetlogTest::Mqtt';
    $socket->blocking(0);
    $c->send_raw(header4('192.0.2.9', 99) . $c->connect_packet(client_id => 'six'));
    is($c->read_packet->{reason}, 0, 'MQTT over IPv6, behind a balancer');
    $s->wait_for("SELECT peer FROM fleetlog.stat_connection WHERE client_id = 'six'", '192.0.2.9:99', 'the balancer to tell the IPv4 address of its client');
    pass('which tells the IPv4 address of its client');
    $c->disconnect;
}

# Half a header holds nobody up, and is closed in time.
$s->set_conf('fleetlog.proxy_protocol_from' => '127.0.0.0/8', 'fleetlog.connect_timeout' => '4s');
FleetlogTest::wait_until(sub { $s->sql("SHOW fleetlog.connect_timeout") eq '4s' }, 'the timeout');
my @half = map { my $c = FleetlogTest::Mqtt->open($s->port); $c->send_raw($SIGNATURE); $c } 1 .. 20;
is(peer_of(header4('192.0.2.10', 10)), '192.0.2.10:10', 'twenty half headers hold nobody up');
is(scalar(grep { ($_->read_packet // '') eq 'closed' } @half), 20, 'they are closed when their time is over');

isnt($s->sql_error("ALTER SYSTEM SET fleetlog.proxy_protocol_from = 'balancer.example'"), undef, 'a name is no address');
isnt($s->sql_error("ALTER SYSTEM SET fleetlog.proxy_protocol_from = '10.0.0.0/33'"), undef, 'nor is a mask of 33 bits');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection", '0', 'all connections to be gone');
$s->wait_for("SELECT sum(open) FROM fleetlog.stat_listener", '0', 'and no listener to count one');
is($s->crashes, '', 'no crash');
done_testing();
