# FleetlogTest::Mqtt: an MQTT client in plain Perl that sends exactly the bytes a test wants.
#
# Well-formed packets have methods (login, publish, subscribe, ...); send_raw takes anything.  Reading returns decoded
# packets as hashes, the string 'closed' when the peer closed, or undef after the timeout.  It never answers by itself,
# so that tests decide when a PUBACK or PINGREQ goes out.
package FleetlogTest::Mqtt;

use strict;
use warnings;
use Carp qw(confess);
use Errno qw(EAGAIN EWOULDBLOCK EINTR);
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

our $TIMEOUT = 30;              # FleetlogTest.pm sets its own

our %TYPE = (
    CONNECT => 1, CONNACK => 2, PUBLISH => 3, PUBACK => 4, PUBREC => 5, PUBREL => 6, PUBCOMP => 7, SUBSCRIBE => 8,
    SUBACK => 9, UNSUBSCRIBE => 10, UNSUBACK => 11, PINGREQ => 12, PINGRESP => 13, DISCONNECT => 14, AUTH => 15);
our %NAME = reverse %TYPE;

# How each property's value is encoded.
my %PROPERTY = (
    1 => 'u8', 2 => 'u32', 3 => 'str', 8 => 'str', 9 => 'bin', 11 => 'var', 17 => 'u32', 18 => 'str', 19 => 'u16',
    21 => 'str', 22 => 'bin', 23 => 'u8', 24 => 'u32', 25 => 'u8', 26 => 'str', 28 => 'str', 31 => 'str', 33 => 'u16',
    34 => 'u16', 35 => 'u16', 36 => 'u8', 37 => 'u8', 38 => 'pair', 39 => 'u32', 40 => 'u8', 41 => 'u8', 42 => 'u8');

sub open
{
    my ($class, $port, %opt) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp', Timeout => $TIMEOUT)
      or confess("cannot connect to port $port: $!");

    $socket->blocking(0);
    # As client libraries do: else a second small packet waits for the answer to the first.
    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1 or confess("TCP_NODELAY: $!");
    return bless { socket => $socket, in => '', version => $opt{version} // 5, pid => 0, closed => 0 }, $class;
}

# ---- Encoding ---------------------------------------------------------------

sub varlen
{
    my ($n) = @_;
    my $out = '';

    do
    {
        my $byte = $n % 128;
        $n = int($n / 128);
        $out .= chr($byte | ($n > 0 ? 128 : 0));
    } while ($n > 0);
    return $out;
}

sub str { return pack('n/a*', $_[0]) }

# A whole packet from its first byte and its body.
sub packet
{
    my ($first, $body) = @_;
    return chr($first) . varlen(length $body) . $body;
}

# [id, value], [38, name, value], ... in the given order.
sub properties
{
    my ($list) = @_;
    my $out = '';

    for my $p (@{ $list // [] })
    {
        my ($id, @value) = @$p;
        my $kind = $PROPERTY{$id} // confess("unknown property $id");
        $out .= chr($id);
        $out .= $kind eq 'u8' ? chr($value[0])
          : $kind eq 'u16' ? pack('n', $value[0])
          : $kind eq 'u32' ? pack('N', $value[0])
          : $kind eq 'var' ? varlen($value[0])
          : $kind eq 'pair' ? str($value[0]) . str($value[1])
          : str($value[0]);
    }
    return varlen(length $out) . $out;
}

sub connect_packet
{
    my ($self, %opt) = @_;
    my $v5 = $self->{version} == 5;
    my $flags = ($opt{clean} // 1) ? 2 : 0;
    my $body = str($self->{version} == 3 ? 'MQIsdp' : 'MQTT') . chr($self->{version});
    my $rest = str($opt{client_id} // '');

    if (my $will = $opt{will})
    {
        $flags |= 4 | (($will->{qos} // 0) << 3) | ($will->{retain} ? 32 : 0);
        $rest .= properties($will->{properties}) if $v5;
        $rest .= str($will->{topic}) . str($will->{payload} // '');
    }
    if (defined $opt{user}) { $flags |= 128; $rest .= str($opt{user}); }
    if (defined $opt{password}) { $flags |= 64; $rest .= str($opt{password}); }
    $body .= chr($flags) . pack('n', $opt{keep_alive} // 3600);
    $body .= properties($opt{properties}) if $v5;
    return packet(0x10, $body . $rest);
}

sub publish_packet
{
    my ($self, $topic, $payload, %opt) = @_;
    my $qos = $opt{qos} // 0;
    my $first = 0x30 | ($opt{dup} ? 8 : 0) | ($qos << 1) | ($opt{retain} ? 1 : 0);
    my $body = str($topic);

    $body .= pack('n', $opt{pid}) if $qos > 0;
    $body .= properties($opt{properties}) if $self->{version} == 5;
    return packet($first, $body . $payload);
}

# ---- Sending ----------------------------------------------------------------

sub send_raw
{
    my ($self, $bytes) = @_;
    my $end = time + $TIMEOUT;
    my $select = IO::Select->new($self->{socket});

    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes)
    {
        my $n = syswrite $self->{socket}, $bytes;
        if (defined $n) { substr($bytes, 0, $n, ''); next; }
        if ($! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR)
        {
            confess('the peer does not read') if time > $end;
            $select->can_write(1);
            next;
        }
        return 0;
    }
    return 1;
}

sub send_hex
{
    my ($self, $hex) = @_;
    $hex =~ s/\s+//g;
    return $self->send_raw(pack('H*', $hex));
}

# CONNECT and its answer: the CONNACK, 'closed', or undef.
sub login
{
    my ($self, %opt) = @_;
    $self->send_raw($self->connect_packet(%opt));
    my $ack = $self->read_packet;
    return unless ref $ack;
    confess("expected CONNACK, got $ack->{name}") unless $ack->{name} eq 'CONNACK';
    return $ack;
}

sub next_pid
{
    my ($self) = @_;
    $self->{pid} = $self->{pid} % 65535 + 1;
    return $self->{pid};
}

# Sends a PUBLISH and returns its packet identifier (0 for QoS 0); does not wait.
sub publish
{
    my ($self, $topic, $payload, %opt) = @_;
    $opt{pid} //= $self->next_pid if ($opt{qos} // 0) > 0;
    $self->send_raw($self->publish_packet($topic, $payload, %opt));
    return $opt{pid} // 0;
}

# QoS 1 PUBLISH, then its PUBACK; returns the reason code, or dies when none comes.  A subscriber may be sent messages
# before, its own among them: those are kept for whoever reads next.
sub publish_acked
{
    my ($self, $topic, $payload, %opt) = @_;
    my $pid = $self->publish($topic, $payload, %opt, qos => 1);
    my ($ack, @early);

    while (ref($ack = $self->read_packet) && $ack->{name} eq 'PUBLISH') { push @early, $ack }
    unless (ref $ack && $ack->{name} eq 'PUBACK')
    {
        confess('expected PUBACK, got ' . (ref $ack ? $ack->{name} . (defined $ack->{reason} ? " reason $ack->{reason}" : '') : $ack // 'nothing'));
    }
    unshift @{ $self->{pushed} }, @early;
    confess("PUBACK for $ack->{pid}, expected $pid") unless $ack->{pid} == $pid;
    return $ack->{reason};
}

# Filters as [filter, options byte] or plain text (QoS 0); returns the SUBACK's reason codes.
sub subscribe
{
    my ($self, $filters, %opt) = @_;
    my $pid = $self->next_pid;
    my $body = pack('n', $pid);

    $body .= properties($opt{properties}) if $self->{version} == 5;
    $body .= join '', map { ref $_ ? str($_->[0]) . chr($_->[1]) : str($_) . "\0" } @$filters;
    $self->send_raw(packet(0x82, $body));
    # What is subscribed to already may come before the answer: it is kept for whoever reads next.
    my ($ack, @early);
    while (ref($ack = $self->read_packet) && $ack->{name} eq 'PUBLISH') { push @early, $ack }
    confess('expected SUBACK, got ' . (ref $ack ? $ack->{name} : $ack // 'nothing')) unless ref $ack && $ack->{name} eq 'SUBACK';
    unshift @{ $self->{pushed} }, @early;
    confess("SUBACK for $ack->{pid}, expected $pid") unless $ack->{pid} == $pid;
    return @{ $ack->{reasons} };
}

sub unsubscribe
{
    my ($self, @filters) = @_;
    my $pid = $self->next_pid;
    my $body = pack('n', $pid);

    $body .= properties([]) if $self->{version} == 5;
    $body .= join '', map { str($_) } @filters;
    $self->send_raw(packet(0xA2, $body));
    my $ack = $self->expect('UNSUBACK');
    confess("UNSUBACK for $ack->{pid}, expected $pid") unless $ack->{pid} == $pid;
    return @{ $ack->{reasons} };
}

sub puback
{
    my ($self, $pid) = @_;
    return $self->send_raw(packet(0x40, pack('n', $pid)));
}

# The answers of QoS 2; each may have a reason code.
sub answer
{
    my ($self, $first, $pid, $reason) = @_;
    return $self->send_raw(packet($first, pack('n', $pid) . ($reason ? chr $reason : '')));
}
sub pubrec { my ($self, @p) = @_; return $self->answer(0x50, @p); }
sub pubrel { my ($self, @p) = @_; return $self->answer(0x62, @p); }
sub pubcomp { my ($self, @p) = @_; return $self->answer(0x70, @p); }

# A QoS 2 PUBLISH up to its PUBCOMP; returns the packet identifier.
sub publish_released
{
    my ($self, $topic, $payload, %opt) = @_;
    my $pid = $self->publish($topic, $payload, %opt, qos => 2);
    my $rec = $self->expect('PUBREC');

    confess("PUBREC for $rec->{pid}, reason $rec->{reason}, expected $pid") unless $rec->{pid} == $pid && $rec->{reason} == 0;
    $self->pubrel($pid);
    my $comp = $self->expect('PUBCOMP');
    confess("PUBCOMP for $comp->{pid}, reason $comp->{reason}, expected $pid") unless $comp->{pid} == $pid && $comp->{reason} == 0;
    return $pid;
}

sub ping
{
    my ($self) = @_;
    $self->send_hex('c000');
    $self->expect('PINGRESP');
    return 1;
}

sub disconnect
{
    my ($self, $reason) = @_;
    $self->send_raw($self->{version} == 5 && $reason ? packet(0xE0, chr($reason)) : packet(0xE0, ''));
    $self->close;
    return;
}

sub close
{
    my ($self) = @_;
    CORE::close($self->{socket}) if $self->{socket};
    $self->{closed} = 1;
    return;
}

# Closes without a FIN handshake that waits: what a device does that loses power.
sub reset
{
    my ($self) = @_;
    setsockopt $self->{socket}, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack('ii', 1, 0);
    return $self->close;
}

# ---- Receiving --------------------------------------------------------------

# Takes what the socket has; false when the peer closed.
sub fill
{
    my ($self) = @_;
    my $n = sysread $self->{socket}, $self->{in}, 65536, length $self->{in};

    return 1 if !defined $n && ($! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR);
    if (!$n) { $self->{closed} = 1; return 0; }
    return 1;
}

# The next whole packet in the buffer, raw: (first byte, body), or nothing.
sub cut
{
    my ($self) = @_;
    my ($length, $shift, $at) = (0, 0, 1);

    return if length $self->{in} < 2;
    while (1)
    {
        return if $at >= length $self->{in};
        my $byte = ord substr $self->{in}, $at++, 1;
        $length += ($byte & 127) << $shift;
        last unless $byte & 128;
        $shift += 7;
        confess('remaining length of more than four bytes') if $shift > 21;
    }
    return if length $self->{in} < $at + $length;
    my $first = ord $self->{in};
    my $body = substr $self->{in}, $at, $length;
    substr $self->{in}, 0, $at + $length, '';
    return ($first, $body);
}

sub read_packet
{
    my ($self, $timeout) = @_;
    my $end = time + ($timeout // $TIMEOUT);
    my $select = IO::Select->new($self->{socket});

    return shift @{ $self->{pushed} } if @{ $self->{pushed} // [] };
    while (1)
    {
        my ($first, $body) = $self->cut;
        return $self->decode($first, $body) if defined $first;
        return 'closed' if $self->{closed};
        my $left = $end - time;
        return if $left <= 0;
        $self->fill if $select->can_read($left);
    }
}

# The next packet, which must be of this type.
sub expect
{
    my ($self, $name, $timeout) = @_;
    my $p = $self->read_packet($timeout);

    confess("expected $name, got " . (ref $p ? $p->{name} . (defined $p->{reason} ? " reason $p->{reason}" : '') : $p // 'nothing'))
      unless ref $p && $p->{name} eq $name;
    return $p;
}

# True when nothing arrives for so many seconds.  Such a wait proves little alone: use it only where another event
# shows that the server had its chance.
sub quiet
{
    my ($self, $seconds) = @_;
    my $p = $self->read_packet($seconds // 0.5);

    return 1 unless defined $p;
    push @{ $self->{pushed} }, $p;
    return 0;
}

# How the server ended the connection: "0x81" for a DISCONNECT or refusing CONNACK with that reason, "closed", or
# "open" when it did not.  Other packets on the way are passed over; behind the reason there must be none, and the
# connection must be closed, or what is returned says so.
sub ending
{
    my ($self, $timeout) = @_;
    my $end = time + ($timeout // $TIMEOUT);
    my $reason;

    while (1)
    {
        my $p = $self->read_packet($end > time ? $end - time : 0);
        return defined $reason ? "$reason, but open" : 'open' unless defined $p;
        return $reason // 'closed' unless ref $p;
        return "$reason, then $p->{name}" if defined $reason;
        $reason = sprintf '0x%02X', $p->{reason}
          if $p->{name} eq 'DISCONNECT' || ($p->{name} eq 'CONNACK' && $p->{reason} != 0);
    }
}

# All PUBLISH packets until so many came or the time is over; QoS 1 ones are acknowledged.
sub messages
{
    my ($self, $count, $timeout) = @_;
    my $end = time + ($timeout // $TIMEOUT);
    my @got;

    while (@got < $count)
    {
        my $p = $self->read_packet($end > time ? $end - time : 0);
        last unless ref $p;
        next unless $p->{name} eq 'PUBLISH';
        $self->puback($p->{pid}) if $p->{qos} == 1;
        push @got, $p;
    }
    return @got;
}

# The first answer to a delivery at QoS 1 or 2; completed() does the rest.
sub receipt
{
    my ($self, $p) = @_;
    if ($p->{qos} == 1) { $self->puback($p->{pid}); }
    elsif ($p->{qos} == 2) { $self->pubrec($p->{pid}); }
    return;
}

# Takes so many deliveries, each to its end, and what else has to be released.
sub completed
{
    my ($self, $count) = @_;
    my (@got, %open);

    while (@got < $count || keys %open)
    {
        my $p = $self->read_packet;
        last unless ref $p;
        if ($p->{name} eq 'PUBREL') { $self->pubcomp($p->{pid}); delete $open{ $p->{pid} }; }
        next unless $p->{name} eq 'PUBLISH';
        push @got, $p;
        $self->receipt($p);
        $open{ $p->{pid} } = 1 if $p->{qos} == 2;
    }
    return @got;
}

# ---- Decoding ---------------------------------------------------------------

sub take_varlen
{
    my ($b) = @_;
    my ($n, $shift) = (0, 0);

    while (1)
    {
        confess('cut off variable byte integer') unless length $$b;
        my $byte = ord substr $$b, 0, 1, '';
        $n += ($byte & 127) << $shift;
        return $n unless $byte & 128;
        $shift += 7;
    }
}

sub take_str
{
    my ($b) = @_;
    my $n = unpack 'n', substr $$b, 0, 2, '';
    confess('string beyond the packet') if $n > length $$b;
    return substr $$b, 0, $n, '';
}

# The property list as [id, value...] in order.
sub take_properties
{
    my ($b) = @_;
    my $n = take_varlen($b);
    confess('properties beyond the packet') if $n > length $$b;
    my $p = substr $$b, 0, $n, '';
    my @list;

    while (length $p)
    {
        my $id = ord substr $p, 0, 1, '';
        my $kind = $PROPERTY{$id} // confess("server sent unknown property $id");
        push @list, [
            $id,
            $kind eq 'u8' ? ord(substr $p, 0, 1, '')
            : $kind eq 'u16' ? unpack('n', substr $p, 0, 2, '')
            : $kind eq 'u32' ? unpack('N', substr $p, 0, 4, '')
            : $kind eq 'var' ? take_varlen(\$p)
            : $kind eq 'pair' ? (take_str(\$p), take_str(\$p))
            : take_str(\$p) ];
    }
    return \@list;
}

# Kinds of packets of 5.0 that came, and their properties, for unasked() and unseen().
my %seen;

sub decode
{
    my ($self, $first, $body) = @_;
    my $v5 = $self->{version} == 5;
    my $type = $first >> 4;
    my %p = (name => $NAME{$type} // "type$type", flags => $first & 15, raw => packet($first, $body), properties => []);
    my $name = $p{name};
    my $b = $body;

    if ($name eq 'PUBLISH')
    {
        $p{dup} = $first >> 3 & 1;
        $p{qos} = $first >> 1 & 3;
        $p{retain} = $first & 1;
        $p{topic} = take_str(\$b);
        $p{pid} = unpack 'n', substr $b, 0, 2, '' if $p{qos};
        $p{properties} = take_properties(\$b) if $v5;
        $p{payload} = $b;
    }
    elsif ($name eq 'CONNACK')
    {
        $p{session_present} = ord substr $b, 0, 1, '';
        $p{reason} = ord substr $b, 0, 1, '';
        $p{properties} = take_properties(\$b) if $v5 && length $b;
    }
    elsif ($name =~ /^PUB/)
    {
        $p{pid} = unpack 'n', substr $b, 0, 2, '';
        $p{reason} = length $b ? ord(substr $b, 0, 1, '') : 0;
        $p{properties} = take_properties(\$b) if length $b;
    }
    elsif ($name eq 'SUBACK' || $name eq 'UNSUBACK')
    {
        $p{pid} = unpack 'n', substr $b, 0, 2, '';
        $p{properties} = take_properties(\$b) if $v5;
        $p{reasons} = [ unpack 'C*', $b ];
    }
    elsif ($name eq 'DISCONNECT' || $name eq 'AUTH')
    {
        $p{reason} = length $b ? ord(substr $b, 0, 1, '') : 0;
        $p{properties} = take_properties(\$b) if length $b;
    }
    if ($v5)
    {
        # A refusal may say why.
        my $refused = grep { $_ >= 0x80 } $p{reason} // (), @{ $p{reasons} // [] };
        $seen{$_}++ for $name, map { "$name $_->[0]" } grep { !$refused || $_->[0] != 31 } @{ $p{properties} };
    }
    return \%p;
}

# What packets of 5.0 so far, of all clients of this program, told without need: kind and number of the property, for
# reason strings of what is no refusal and user properties outside of PUBLISH, Response Information and Authentication Method in CONNACK, and
# Session Expiry in DISCONNECT; and any AUTH at all.
sub unasked
{
    return join ', ', grep { !/^PUBLISH / && /^(?:AUTH|\w+ (?:31|38)|CONNACK (?:21|26)|DISCONNECT 17)$/ } sort keys %seen;
}

# Of these kinds of packets, those that no client of 5.0 has got.
sub unseen { return join ' ', grep { !$seen{$_} } @_; }

# The first value of a property of a packet, or undef.
sub property
{
    my ($p, $id) = @_;
    for my $one (@{ $p->{properties} }) { return $one->[1] if $one->[0] == $id; }
    return;
}

1;
