# FleetlogTest::Kafka: Kafka requests written by hand, for what no client would send.
package FleetlogTest::Kafka;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use FleetlogTest::Scram;

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

# ---- log-ins ----

# SaslHandshake: the error, and the mechanisms that are offered; undef when it was closed.
sub handshake
{
    my ($self, $mechanism, $version) = @_;

    $self->request(17, $version // 1, pack('n/a*', $mechanism));
    my ($id, $answer) = $self->answer or return;
    my ($error, @names) = unpack 'n N/(n/a*)', $answer;

    return ($error, join ' ', @names);
}

# SaslAuthenticate: error, message, bytes and the session's length; an empty list when it was closed.
sub authenticate
{
    my ($self, $token) = @_;

    $self->request(36, 1, pack('N/a*', $token));
    my ($id, $answer) = $self->answer or return;
    my ($error, $len) = unpack 'n s>', $answer;
    my $message = $len < 0 ? undef : substr $answer, 4, $len;
    my ($bytes, $lifetime) = unpack 'N/a* q>', substr $answer, 4 + ($len < 0 ? 0 : $len);

    return ($error, $message, $bytes, $lifetime);
}

# A token without a header, as behind a handshake of version 0; undef when it was closed.
sub token
{
    my ($self, $token) = @_;

    $self->send_raw(pack('N/a*', $token));
    while (length $self->{in} < 4 || length $self->{in} < 4 + unpack('N', $self->{in}))
    {
        return unless IO::Select->new($self->{socket})->can_read($TIMEOUT) && sysread $self->{socket}, $self->{in}, 65536, length $self->{in};
    }
    return unpack 'N/a*', substr $self->{in}, 0, 4 + unpack('N', $self->{in}), '';
}

our $count = 0;

# A whole log-in: the answer of authenticate().  mechanism => 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'; further options go to prove.
sub log_in
{
    my ($self, $user, $password, %opt) = @_;
    my $mechanism = $opt{mechanism} // 'PLAIN';
    my ($error) = $self->handshake($mechanism);

    return $error if $error;
    return $self->authenticate("\0$user\0$password") if $mechanism eq 'PLAIN';
    my $first = "n,,n=$user,r=nonce" . ++$count;
    my @answer = $self->authenticate($first);
    return @answer if $answer[0];
    my ($final, $theirs) = FleetlogTest::Scram::prove($first, $answer[2], $password, hash => substr($mechanism, -3), %opt);
    @answer = $self->authenticate($final);
    die "the server has not proved itself: $answer[2]" if @answer && !$answer[0] && $answer[2] ne $theirs;
    return @answer;
}

# The topics that Metadata tells of; undef when it was closed.
sub topics
{
    my ($self) = @_;

    $self->request(3, 1, pack('N', 0xFFFFFFFF));
    my ($id, $answer) = $self->answer or return;
    my @names;
    my $at = 4 + 4 + 2 + unpack('n', substr $answer, 8, 2) + 4 + 2 + 4;   # one broker without a rack, the controller
    my $n = unpack 'N', substr $answer, $at, 4;

    $at += 4;
    for (1 .. $n)
    {
        my ($error, $name) = unpack 'n n/a*', substr $answer, $at;

        push @names, $name;
        $at += 2 + 2 + length($name) + 1;
        my $partitions = unpack 'N', substr $answer, $at, 4;
        $at += 4;
        for (1 .. $partitions)
        {
            my ($r) = unpack 'x10 N', substr $answer, $at;
            my ($i) = unpack 'N', substr $answer, $at + 14 + 4 * $r;
            $at += 14 + 4 * $r + 4 + 4 * $i;
        }
    }
    return join ' ', sort @names;
}

1;
