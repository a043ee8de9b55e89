# FleetlogTest::Sequences: exchanges of bytes as text (test/sequences/*.seq), read and played against a front door.
#
#	case NAME                 begins one; the name is unique
#	shows 3.8.3-2 ...         statements of MQTT 5.0 that it shows; shows3 ...: of 3.1.1, where that says something else
#	versions 4 5              it is played once for each (3: 3.1, 4: 3.1.1)
#	raw a                     connection a begins without a CONNECT; any other one is connected when it is first named
#	a> BYTES                  are sent; > alone is a>
#	a< BYTES                  must come next, exactly
#	a alive                   PINGREQ is answered by PINGRESP, and nothing comes before that
#	a ends 81 82              in 5.0 a DISCONNECT with one of these codes comes, and then the end; in 3.x the end alone
#	a refused 85 02           a CONNACK with this code of 5.0, or this one of 3.x, and then the end; -: the end alone
#	a closed                  the end alone
#	a connack 01              a CONNACK that lets in comes, with this Session Present; its properties are no matter
#	a cut                     our end is closed; the connection may be named again, and is a new one
#
# BYTES are hexadecimal digits, "text", s"text" with its length in two bytes, s{...} likewise, {...} with its length as a
# variable byte integer, p{...} a block of properties, which 3.x has not, 5{...} and 3{...} for these versions only, XX*N a
# byte N times, proto the protocol's name and level, id a client identifier that only this connection of this case has,
# t"text" a topic or filter that only this case has; ?? is any byte, where they are expected.
package FleetlogTest::Sequences;

use strict;
use warnings;
use Carp qw(confess);
use IO::Socket::INET;
use Time::HiRes qw(time);

our $TIMEOUT = 180;

# All cases of a file, in order.
sub read_file
{
    my ($path) = @_;
    my @cases;

    open my $in, '<', $path or confess("$path: $!");
    while (my $line = <$in>)
    {
        chomp $line;
        next if $line =~ /^\s*(?:#|$)/;
        if ($line =~ /^case (\S.*)$/) { push @cases, { name => $1, shows => [], shows3 => [], versions => [], steps => [] }; next; }
        confess("$path:$.: before the first case") unless @cases;
        my $case = $cases[-1];
        if ($line =~ /^(shows3?|versions) (\S.*)$/) { push @{ $case->{$1} }, split ' ', $2; }
        elsif ($line =~ /^raw (\w)$/) { push @{ $case->{steps} }, [ 'raw', $1 ]; }
        elsif ($line =~ /^(\w?)([<>]) (.+)$/) { push @{ $case->{steps} }, [ $2, $1 eq '' ? 'a' : $1, $3 ]; }
        elsif ($line =~ /^(?:(\w) )?(alive|ends|refused|closed|cut|connack)((?: [0-9a-f]{2}| -)*)$/)
        {
            push @{ $case->{steps} }, [ $2, $1 // 'a', split ' ', $3 ];
        }
        else { confess("$path:$.: what is \"$line\"?"); }
    }
    close $in;
    return @cases;
}

sub varint
{
    my ($n) = @_;
    my $out = '';

    do
    {
        my $byte = $n & 127;
        $n >>= 7;
        $out .= chr($n ? $byte | 128 : $byte);
    } while ($n);
    return $out;
}

# The bytes of a text, and a mask with 0 where any byte will do.  `$$text` is eaten up to the closing brace.
sub compile
{
    my ($text, $run, $name, $depth) = @_;
    my ($bytes, $mask) = ('', '');
    my $v5 = $run->{version} == 5;
    my $add = sub { $bytes .= $_[0]; $mask .= $_[1] // "\xff" x length $_[0]; return; };

    while ($$text =~ s/^\s+// || length $$text)
    {
        if ($$text =~ s/^\}//) { return ($bytes, $mask) if $depth; confess('a brace too much'); }
        elsif ($$text =~ s/^([sp53]?)\{//)
        {
            my $kind = $1;
            my ($inner, $inner_mask) = compile($text, $run, $name, 1);
            next if ($kind =~ /[p5]/ && !$v5) || ($kind eq '3' && $v5);
            $add->($kind eq 's' ? pack('n', length $inner) : varint(length $inner)) unless $kind =~ /[53]/;
            $add->($inner, $inner_mask);
        }
        elsif ($$text =~ s/^([st]?)"([^"]*)"//)
        {
            my $string = $1 eq 't' ? "$run->{prefix}/$2" : $2;
            $add->($1 eq '' ? $string : pack('n/a*', $string));
        }
        elsif ($$text =~ s/^proto\b//) { $add->($run->{version} == 3 ? pack('n/a*', 'MQIsdp') . "\3" : pack('n/a*', 'MQTT') . chr $run->{version}); }
        elsif ($$text =~ s/^id\b//) { $add->(pack('n/a*', "$run->{prefix}-$name")); }
        elsif ($$text =~ s/^\?\?//) { $add->("\0", "\0"); }
        elsif ($$text =~ s/^([0-9a-f]{2})\*(\d+)//) { $add->(chr(hex $1) x $2); }
        elsif ($$text =~ s/^((?:[0-9a-f]{2})+)//) { $add->(pack('H*', $1)); }
        else { confess("cannot read bytes: $$text"); }
    }
    confess('a brace is missing') if $depth;
    return ($bytes, $mask);
}

sub more
{
    my ($c, $end) = @_;
    my $left = $end - time;
    my $rin = '';

    vec($rin, fileno($c->{socket}), 1) = 1;
    die "nothing more came\n" if $left <= 0 || !select($rin, undef, undef, $left);
    my $n = sysread $c->{socket}, my $data, 65536;
    return 0 unless $n;
    $c->{in} .= $data;
    return 1;
}

sub expect
{
    my ($c, $bytes, $mask) = @_;
    my $end = time + $TIMEOUT;

    while (length $c->{in} < length $bytes)
    {
        last unless more($c, $end);
    }
    my $got = substr $c->{in}, 0, length $bytes, '';
    my $same = length $got == length $bytes && ($got & $mask) eq ($bytes & $mask);
    $c->{last} = substr $got, -1;
    die 'wanted ' . unpack('H*', $bytes) . ', got ' . (unpack('H*', $got) || 'the end') . "\n" unless $same;
    return;
}

sub rest
{
    my ($c) = @_;
    my $end = time + $TIMEOUT;

    1 while more($c, $end);
    return $c->{in};
}

sub is_packet { my ($in, $type, $at, @codes) = @_; return length $in > $at && ord(substr $in, 0, 1) == $type && length $in == 2 + ord(substr $in, 1, 1) && grep { hex($_) == ord substr $in, $at, 1 } @codes; }

sub connection
{
    my ($run, $name) = @_;
    my $c = $run->{connections}{$name};

    return $c if $c && $c->{socket};
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $run->{port}, Proto => 'tcp') or die "cannot connect: $!\n";
    my $raw = $c && $c->{raw};
    $c = $run->{connections}{$name} = { socket => $socket, in => '' };
    return $c if $raw;
    step($run, '>', $name, '10 { proto 02 0000 p{} id }');
    step($run, 'connack', $name, '00');
    return $c;
}

sub step
{
    my ($run, $what, $name, @more) = @_;

    if ($what eq 'raw') { $run->{connections}{$name} = { raw => 1 }; return; }
    my $c = connection($run, $name);
    if ($what eq '>')
    {
        my ($bytes) = compile(\(my $text = $more[0]), $run, $name);
        # Who has been refused in the middle of it says so later.
        local $SIG{PIPE} = 'IGNORE';
        for (my $at = 0; $at < length $bytes;)
        {
            my $n = syswrite $c->{socket}, $bytes, length($bytes) - $at, $at;
            last unless $n;
            $at += $n;
        }
    }
    elsif ($what eq '<') { expect($c, compile(\(my $text = $more[0]), $run, $name)); }
    elsif ($what eq 'alive') { step($run, '>', $name, 'c000'); step($run, '<', $name, 'd000'); }
    elsif ($what eq 'connack')
    {
        step($run, '<', $name, '20 ??');
        step($run, '<', $name, "$more[0] 00" . ' ??' x (ord($c->{last}) - 2));
    }
    elsif ($what eq 'cut') { close $c->{socket}; delete $c->{socket}; }
    else
    {
        my $in = rest($c);
        my $v5 = $run->{version} == 5;
        my $fits =
            $what eq 'closed' || ($what eq 'ends' && !$v5) ? $in eq ''
          : $what eq 'ends' ? is_packet($in, 0xE0, 2, @more)
          : $more[$v5 ? 0 : 1] eq '-' ? $in eq ''
          :                             is_packet($in, 0x20, 3, $more[$v5 ? 0 : 1]) && ord(substr $in, 2, 1) == 0;
        die "at the end came " . (unpack('H*', $in) || 'nothing') . "\n" unless $fits;
        close $c->{socket};
        delete $c->{socket};
    }
    return;
}

# '' when the case is as it should be in this version, else what was seen.
sub play
{
    my ($case, $version, %opt) = @_;
    my $run = { %opt, version => $version, connections => {}, prefix => "$opt{number}v$version" };
    my $at = 0;

    for my $step (@{ $case->{steps} })
    {
        $at++;
        eval { step($run, @$step); 1 } or return "step $at (@$step): $@";
    }
    # A clean end, so that no will is left.
    for my $c (values %{ $run->{connections} })
    {
        next unless $c->{socket};
        syswrite $c->{socket}, "\xe0\0";
        close $c->{socket};
    }
    return '';
}

1;
