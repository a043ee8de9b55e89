# FleetlogTest::KafkaGroup: members of consumer groups that send exactly what a test wants, at versions without compact lengths.
#
# send() and answer() are apart, so that a test can have several requests wait at once; call() does both.  An answer is a
# reader with methods i16, i32, i64, str, bytes, array.
package FleetlogTest::KafkaGroup;

use strict;
use warnings;
use Carp qw(confess);
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

our $TIMEOUT = 180;

our %KEY = (
    OffsetCommit => 8, OffsetFetch => 9, FindCoordinator => 10, JoinGroup => 11, Heartbeat => 12, LeaveGroup => 13,
    SyncGroup => 14, DescribeGroups => 15, ListGroups => 16, DeleteGroups => 42, OffsetDelete => 47);

sub open
{
    my ($class, $port, %opt) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp', Timeout => $TIMEOUT)
      or confess("cannot connect to port $port: $!");

    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1 or confess("TCP_NODELAY: $!");
    return bless { socket => $socket, correlation => 0, in => '', group => $opt{group} // 'g', id => '', generation => -1, instance => $opt{instance} },
      $class;
}

# ---- Bytes -------------------------------------------------------------------

sub str { my ($s) = @_; return defined $s ? pack('n/a*', $s) : pack('n', 0xffff); }
sub bytes { my ($s) = @_; return defined $s ? pack('N/a*', $s) : pack('N', 0xffffffff); }
sub i16 { return pack('s>', $_[0]); }
sub i32 { return pack('l>', $_[0]); }
sub i64 { return pack('q>', $_[0]); }
sub array { return pack('N', scalar @_) . join('', @_); }

sub send
{
    my ($self, $api, $version, $body) = @_;
    my $frame = pack('n n N', $KEY{$api} // confess("unknown API $api"), $version, ++$self->{correlation}) . str('test') . $body;

    syswrite $self->{socket}, pack('N', length $frame) . $frame or confess("write: $!");
    return $self->{correlation};
}

# The next answer, or undef after so many seconds, or 'closed'.
sub answer
{
    my ($self, $seconds) = @_;
    my $end = time + ($seconds // $TIMEOUT);

    while (length $self->{in} < 4 || length $self->{in} < 4 + unpack('N', $self->{in}))
    {
        my $left = $end - time;
        return undef if $left <= 0 || !IO::Select->new($self->{socket})->can_read($left);
        my $n = sysread $self->{socket}, $self->{in}, 65536, length $self->{in};
        return 'closed' unless $n;
    }
    my $length = unpack('N', $self->{in});
    my $frame = substr $self->{in}, 4, $length;
    substr $self->{in}, 0, 4 + $length, '';
    return FleetlogTest::KafkaGroup::Reader->new(substr $frame, 4);
}

sub call
{
    my ($self, @request) = @_;
    $self->send(@request);
    my $answer = $self->answer;
    confess("no answer to $request[0]") unless ref $answer;
    return $answer;
}

sub close { my ($self) = @_; close $self->{socket}; return; }

# ---- A member's life (JoinGroup 5, SyncGroup 3, Heartbeat 3, LeaveGroup 3) -----------------------

sub send_join
{
    my ($self, %opt) = @_;
    my @protocols = @{ $opt{protocols} // [ [ 'range', $opt{metadata} // "\0\1\0\0\0\0\0\0\0\0" ] ] };

    return $self->send('JoinGroup', 5,
        str($self->{group}) . i32($opt{session} // 30000) . i32($opt{rebalance} // 60000) . str($self->{id}) . str($self->{instance})
          . str($opt{type} // 'consumer') . array(map { str($_->[0]) . bytes($_->[1]) } @protocols));
}

# The error; what else the answer says is in the member.
sub read_join
{
    my ($self, $seconds) = @_;
    my $a = $self->answer($seconds);

    return $a unless ref $a;
    $a->i32;
    my $error = $a->i16;
    my $generation = $a->i32;
    @{$self}{qw(protocol leader)} = ($a->str, $a->str);
    my $id = $a->str;
    $self->{id} = $id if $error == 0 || $error == 79;
    $self->{generation} = $generation if $error == 0;
    $self->{members} = [ map { { id => $a->str, instance => $a->str, metadata => $a->bytes } } 1 .. $a->i32 ];
    $self->{leads} = $error == 0 && $self->{leader} eq $self->{id};
    return $error;
}

sub join_group
{
    my ($self, %opt) = @_;
    $self->send_join(%opt);
    my $error = $self->read_join;
    return $error unless $error eq 79;
    $self->send_join(%opt);
    return $self->read_join;
}

# assignments: { member id => bytes }
sub send_sync
{
    my ($self, $assignments) = @_;
    return $self->send('SyncGroup', 3,
        str($self->{group}) . i32($self->{generation}) . str($self->{id}) . str($self->{instance})
          . array(map { str($_) . bytes($assignments->{$_}) } sort keys %{ $assignments // {} }));
}

sub read_sync
{
    my ($self, $seconds) = @_;
    my $a = $self->answer($seconds);

    return $a unless ref $a;
    $a->i32;
    my $error = $a->i16;
    $self->{assignment} = $a->bytes;
    return $error;
}

sub sync { my ($self, $assignments) = @_; $self->send_sync($assignments); return $self->read_sync; }

sub heartbeat
{
    my ($self) = @_;
    my $a = $self->call('Heartbeat', 3, str($self->{group}) . i32($self->{generation}) . str($self->{id}) . str($self->{instance}));
    $a->i32;
    return $a->i16;
}

# The member's own error.
sub leave
{
    my ($self) = @_;
    my $a = $self->call('LeaveGroup', 3, str($self->{group}) . array(str($self->{id}) . str($self->{instance})));
    $a->i32;
    my $error = $a->i16;
    return $error if $error;
    $a->i32;
    $a->str;
    $a->str;
    return $a->i16;
}

# ---- Positions (OffsetCommit 7, OffsetFetch 5) ---------------------------------------------------

# [topic, partition, offset, epoch, metadata], ...; errors in the same order.
sub commit
{
    my ($self, @positions) = @_;
    my $a = $self->call('OffsetCommit', 7,
        str($self->{group}) . i32($self->{generation}) . str($self->{id}) . str($self->{instance})
          . array(map { str($_->[0]) . array(i32($_->[1]) . i64($_->[2]) . i32($_->[3] // -1) . str($_->[4] // '')) } @positions));

    $a->i32;
    return map { $a->str; $a->i32; $a->i32; $a->i16 } 1 .. $a->i32;
}

# topics: [name, partition ...], ...; none: all.  A hash of "topic:partition" to "offset epoch metadata", or an error by '!'.
sub fetch
{
    my ($self, @topics) = @_;
    my $a = $self->call('OffsetFetch', 5,
        str($self->{group}) . (@topics ? array(map { my ($name, @p) = @$_; str($name) . array(map { i32($_) } @p) } @topics) : i32(-1)));
    my %got;

    $a->i32;
    for (1 .. $a->i32)
    {
        my $topic = $a->str;
        for (1 .. $a->i32)
        {
            my ($partition, $offset, $epoch, $metadata, $error) = ($a->i32, $a->i64, $a->i32, $a->str, $a->i16);
            $got{"$topic:$partition"} = $error ? "error $error" : "$offset $epoch $metadata";
        }
    }
    $got{'!'} = $a->i16;
    return \%got;
}

package FleetlogTest::KafkaGroup::Reader;

sub new { my ($class, $bytes) = @_; return bless { bytes => $bytes, at => 0 }, $class; }

sub take
{
    my ($self, $n, $format) = @_;
    Carp::confess("answer ends at $self->{at}") if $self->{at} + $n > length $self->{bytes};
    my $value = unpack $format, substr $self->{bytes}, $self->{at}, $n;
    $self->{at} += $n;
    return $value;
}

sub i8 { return $_[0]->take(1, 'c'); }
sub i16 { return $_[0]->take(2, 's>'); }
sub i32 { return $_[0]->take(4, 'l>'); }
sub i64 { return $_[0]->take(8, 'q>'); }
sub str { my ($self) = @_; my $n = $self->i16; return $n < 0 ? undef : $self->take($n, "a$n"); }
sub bytes { my ($self) = @_; my $n = $self->i32; return $n < 0 ? undef : $self->take($n, "a$n"); }
sub rest { my ($self) = @_; return length($self->{bytes}) - $self->{at}; }

1;
