# FleetlogTest::Kafka: Kafka requests written by hand, for what no client would send.
package FleetlogTest::Kafka;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

our $TIMEOUT = 180;

sub connect
{
    my ($class, $port) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp') or return;

    return bless { socket => $socket, in => '', next => 1 }, $class;
}

sub send_raw
{
    my ($self, $bytes) = @_;

    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes)
    {
        my $n = syswrite $self->{socket}, $bytes;

        return 0 unless defined $n;
        substr($bytes, 0, $n) = '';
    }
    return 1;
}

# A request with header version 1, or 2 where flexible; returns its correlation id.
sub request
{
    my ($self, $key, $version, $body, %opt) = @_;
    my $id = $self->{next}++;
    my $frame = pack('n n N n/a*', $key, $version, $id, 'test') . ($opt{flexible} ? "\0" : '') . $body;

    $self->send_raw(pack('N/a*', $frame));
    return $id;
}

# The next answer, with its correlation id; an empty list when the server has closed the connection.
sub answer
{
    my ($self) = @_;
    my $deadline = time + $TIMEOUT;

    while (length $self->{in} < 4 || length $self->{in} < 4 + unpack('N', $self->{in}))
    {
        die "no answer within $TIMEOUT s" if time > $deadline;
        next unless IO::Select->new($self->{socket})->can_read(1);
        return unless sysread $self->{socket}, $self->{in}, 65536, length $self->{in};
    }
    my $frame = substr $self->{in}, 4, unpack('N', $self->{in});

    substr($self->{in}, 0, 4 + length $frame) = '';
    return (unpack('N', $frame), substr($frame, 4));
}

# Has the server closed it?  Waits for that.
sub is_closed
{
    my ($self) = @_;
    my @answer = $self->answer;

    return @answer == 0;
}

1;
