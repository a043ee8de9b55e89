# FleetlogTest::Reference: the reference devices of docs/examples as processes, and a scripted server for them.
#
# A device's output is read as it comes; ->said(pattern) waits for a line.  The server (package FleetlogTest::Reference::Peer)
# accepts one connection at a time and says what the test wants, so that devices can be told what no good server says.
package FleetlogTest::Reference;

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run;
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Utils;
use FleetlogTest;

our @KINDS = ('c', 'python');
my $folder = ($ENV{FLEETLOG_SOURCE} // '.') . '/docs/examples';

# Builds the one in C once, in the folder that was built for this run.
sub build
{
    # Two tests at a time may come here.
    my $out = `flock '$folder' make -s -C '$folder' all 2>&1`;

    confess("the reference device does not build:\n$out") if $?;
    return "$folder/build/device";
}

my @started;

END
{
    my $status = $?;
    $_->kill9 for @started;
    $? = $status;
}

# kind: c or python; port, user, password, memory (file), then options of the program: args => [...].
sub start
{
    my ($class, %opt) = @_;
    my $self = bless { out => '', err => '', seen => 0 }, $class;
    my @command = $opt{kind} eq 'c' ? (build()) : ('/usr/bin/python3', '-B', "$folder/device.py");

    push @command, '--host', '127.0.0.1', '--port', $opt{port}, '--user', $opt{user} // 'acme/d1', '--memory', $opt{memory}, '--boot', 0, '--base-pause', 0.05, '--cap', 0.5;
    if (defined $opt{password})
    {
        my $file = "$opt{memory}.password";
        open my $f, '>', $file or confess("$file: $!");
        print $f "$opt{password}\n";
        close $f;
        push @command, '--password-file', $file;
    }
    push @command, '--mqtt311' if ($opt{version} // 5) == 4;
    $self->{run} = IPC::Run::start([ @command, @{ $opt{args} // [] } ], '<', \undef, '>', \$self->{out}, '2>', \$self->{err});
    push @started, $self;
    return $self;
}

sub pump
{
    my ($self) = @_;
    $self->{run}->pump_nb if $self->{run};
    return;
}

# Waits for this text, or for so many of it, in what the device says.
sub said
{
    my ($self, $pattern, $count) = @_;
    my $end = time + $FleetlogTest::TIMEOUT;

    $count //= 1;
    while (1)
    {
        $self->pump;
        return 1 if (() = $self->{out} =~ /$pattern/mg) >= $count;
        confess("gave up waiting for the device to say $pattern; it said:\n$self->{out}$self->{err}") if time > $end || !$self->{run}->pumpable;
        usleep(5_000);
    }
}

# How often it has said so up to now.
sub count { my ($self, $pattern) = @_; $self->pump; return scalar(() = $self->{out} =~ /$pattern/mg); }

# Every pause so far: [pause, window] in seconds.
sub pauses { my ($self) = @_; $self->pump; my @p; push @p, [ $1, $2 ] while $self->{out} =~ /^pause ([0-9.]+) s of at most ([0-9.]+) s$/mg; return @p; }

sub kill9
{
    my ($self) = @_;
    my $run = delete $self->{run} or return;
    $run->signal('KILL') if $run->pumpable;
    eval { $run->finish };
    return;
}

# An orderly end; returns the exit status.
sub stop
{
    my ($self) = @_;
    my $run = $self->{run};
    $run->signal('TERM');
    $run->finish;
    delete $self->{run};
    return $run->result(0) // -1;
}

package FleetlogTest::Reference::Peer;

use strict;
use warnings;
use Carp qw(confess);
use IO::Select;
use IO::Socket::INET;
use POSIX qw(strftime);
use Time::HiRes qw(time);
use FleetlogTest::Mqtt;

sub new
{
    my ($class) = @_;
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Proto => 'tcp', Listen => 8, ReuseAddr => 1) or confess("listen: $!");
    return bless { listener => $listener }, $class;
}

sub port { return $_[0]{listener}->sockport }

# The next connection, up to the given CONNACK (code, default 0) and, if that is good, its SUBACK (granted, default 1).
sub accept
{
    my ($self, %opt) = @_;

    IO::Select->new($self->{listener})->can_read($FleetlogTest::TIMEOUT) or confess('nobody connects');
    my $socket = $self->{listener}->accept or confess("accept: $!");
    $socket->blocking(0);
    my $c = $self->{client} = bless { socket => $socket, in => '', version => 5, pid => 0, closed => 0 }, 'FleetlogTest::Mqtt';
    my $connect = $c->expect('CONNECT');
    # Header of two bytes (the packet is short), the name "MQTT", the level, the flags.
    my ($level, $flags) = unpack 'x8 C C', $connect->{raw};
    $c->{version} = $level;
    $self->{clean} = $flags >> 1 & 1;
    $c->send_raw(FleetlogTest::Mqtt::packet(0x20, chr($opt{session_present} // 0) . chr($opt{code} // 0) . ($level == 5 ? "\0" : '')));
    return if $opt{code};
    my $subscribe = $c->expect('SUBSCRIBE');
    my $body = substr $subscribe->{raw}, 2;
    my $pid = substr $body, 0, 2, '';
    FleetlogTest::Mqtt::take_properties(\$body) if $level == 5;
    $self->{filter} = FleetlogTest::Mqtt::take_str(\$body);
    $c->send_raw(FleetlogTest::Mqtt::packet(0x90, $pid . ($level == 5 ? "\0" : '') . chr($opt{granted} // 1)));
    return;
}

sub client { return $_[0]{client} }

# Seconds since 1970 as a time of RFC 3339.
sub rfc3339 { my ($t) = @_; return strftime('%Y-%m-%dT%H:%M:%S', gmtime int $t) . sprintf('.%03dZ', 1000 * ($t - int $t)); }

my $count = 0;
sub new_id { return sprintf '%08x-0000-7000-8000-%012x', $$, ++$count; }

# Sends a command as fleetlog does: to device d1 of prefix acme/, in the way of the version.  Options: id, name, payload
# (JSON), issued and expires (seconds from now), dup, without => a property or member that is left out.
sub command
{
    my ($self, %opt) = @_;
    my $c = $self->{client};
    my $id = $opt{id} // new_id();
    my $name = $opt{name} // 'ping';
    my %time = (issued => rfc3339(time + ($opt{issued} // 0)), expires => rfc3339(time + ($opt{expires} // 60)));
    my %said = (id => $id, 'issued-at' => $time{issued}, 'expires-at' => $time{expires});
    my $payload = $opt{payload} // '{}';
    my @properties;

    delete $said{ $opt{without} } if defined $opt{without};
    $said{$_} = $opt{$_} for grep { exists $opt{$_} } 'issued-at', 'expires-at';
    if ($c->{version} == 5)
    {
        @properties = ([ 2, 60 ], [ 8, "acme/cmd/d1/res/$id" ], [ 9, "correlation of $id" ], map { [ 38, "fl-$_", $said{$_} ] } sort keys %said);
    }
    else
    {
        (my $members = join ',', map { (my $m = $_) =~ tr/-/_/; qq("$m":"$said{$_}") } sort keys %said) =~ s/^(?=.)/,/;
        $payload = qq({"name":"$name","payload":$payload$members});
    }
    $c->publish($opt{topic} // "acme/cmd/d1/req/$name", $opt{raw} // $payload, qos => 1, dup => $opt{dup}, properties => \@properties);
    return $id;
}

# The next so many answers, as "ack <id>" or "res <id> <payload>"; each is acknowledged, and so is every PINGREQ.
sub answers
{
    my ($self, $count) = @_;
    my $c = $self->{client};
    my $end = time + $FleetlogTest::TIMEOUT;
    my @got;

    while (@got < $count)
    {
        my $p = $c->read_packet;
        confess('gave up waiting for an answer; before it: ' . join(' | ', @got)) if time > $end;
        confess('expected an answer, got ' . ($p // 'nothing') . '; before it: ' . join(' | ', @got)) unless ref $p;
        if ($p->{name} eq 'PINGREQ') { $c->send_hex('d000'); next; }
        next unless $p->{name} eq 'PUBLISH';
        if ($p->{topic} !~ m{^acme/cmd/d1/(ack|res)/(.+)}) { push @{ $self->{reports} }, $p; next; }
        my ($kind, $id) = ($1, $2);
        confess("an answer at QoS $p->{qos}") unless $p->{qos} == 1;
        $c->puback($p->{pid});
        # Sent before and not known to have been received: it has been, by an earlier connection.
        next if $p->{dup};
        if ($c->{version} == 5)
        {
            my $correlation = FleetlogTest::Mqtt::property($p, 9) // '';
            confess("answer to $id with correlation data '$correlation'") unless $correlation eq "correlation of $id";
        }
        push @got, $kind eq 'ack' ? "ack $id" : "res $id $p->{payload}";
    }
    return @got;
}

1;
