# FleetlogTest::WebSocket: the client of FleetlogTest::Mqtt over WebSocket (RFC 6455), with frames cut as a test wants.
#
# send_raw puts what it is given into one binary frame; send_frames takes frames made by frame().  What is read of binary
# frames goes where the MQTT client looks for it, all other frames are kept in {control} as [first byte, payload].
package FleetlogTest::WebSocket;

use strict;
use warnings;
use Carp qw(confess);
use Errno qw(EAGAIN EWOULDBLOCK EINTR);
use MIME::Base64 ();
use FleetlogTest::Mqtt;

our @ISA = ('FleetlogTest::Mqtt');

# A frame as a client sends it, masked.
sub frame
{
    my ($first, $payload) = @_;
    my $len = length $payload;
    my $mask = pack 'N', int(rand(2**32));
    my $head = chr($first) . ($len < 126 ? chr(128 | $len) : $len < 65536 ? chr(254) . pack('n', $len) : chr(255) . pack('Q>', $len));

    return $head . $mask . ($payload ^ substr($mask x (1 + $len / 4), 0, $len));
}

# A message in several frames of these payloads, with other frames in between where one is a reference.
sub fragments
{
    my (@payloads) = @_;
    my ($out, $first, $left) = ('', 0x02, scalar grep { !ref } @payloads);

    for my $p (@payloads)
    {
        if (ref $p) { $out .= frame(@$p); next; }
        $left--;
        $out .= frame($first | ($left ? 0 : 0x80), $p);
        $first = 0;
    }
    return $out;
}

sub request
{
    my ($port) = @_;
    my $key = MIME::Base64::encode_base64(pack('N4', map { int(rand(2**32)) } 1 .. 4), '');

    return "GET /mqtt HTTP/1.1\r\nHost: localhost:$port\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: $key\r\n"
      . "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
}

sub open
{
    my ($class, $port, %opt) = @_;
    my $self = FleetlogTest::Mqtt::open($class, $port, %opt);

    $self->{ws} = '';
    $self->{control} = [];
    $self->send_frames(request($port));
    FleetlogTest::wait_until(sub { $self->fill; $self->{answer} || $self->{closed} }, 'the upgrade');
    confess('no upgrade: ' . ($self->{answer} // 'closed')) unless ($self->{answer} // '') =~ /^HTTP\/1\.1 101 /;
    return $self;
}

sub send_frames { my ($self, $bytes) = @_; return FleetlogTest::Mqtt::send_raw($self, $bytes); }
sub send_raw { my ($self, $bytes) = @_; return $self->send_frames(frame(0x82, $bytes)); }

# Takes what the socket has; false when the peer closed.
sub fill
{
    my ($self) = @_;
    my $n = sysread $self->{socket}, $self->{ws}, 65536, length $self->{ws};

    return 1 if !defined $n && ($! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR);
    $self->{closed} = 1 if !$n;
    if (!$self->{answer} && $self->{ws} =~ s/^(HTTP.*?\r\n\r\n)//s) { $self->{answer} = $1; }
    if ($self->{answer}) { 1 while $self->unframe; }
    return $n ? 1 : 0;
}

# Takes one frame out of what has come; false: there is none that is whole.
sub unframe
{
    my ($self) = @_;
    my ($first, $len) = unpack 'CC', $self->{ws};
    my $at = 2;

    return 0 unless defined $len;
    if ($len == 126) { $at = 4; return 0 if length $self->{ws} < $at; $len = unpack 'x2n', $self->{ws}; }
    elsif ($len == 127) { $at = 10; return 0 if length $self->{ws} < $at; $len = unpack 'x2Q>', $self->{ws}; }
    return 0 if length $self->{ws} < $at + $len;
    my $payload = substr $self->{ws}, $at, $len;
    substr $self->{ws}, 0, $at + $len, '';
    if ($first == 0x82) { $self->{in} .= $payload; }
    else { push @{ $self->{control} }, [ $first, $payload ]; }
    return 1;
}

1;
