# FleetlogTest::Load: several devices that publish at QoS 1 as fast as they are acknowledged, and a subscriber.
#
# It lives in the test's own process and works while pump() runs, so a test can do something to the server at a moment
# of its choice.  It remembers which payloads were sent, acknowledged and delivered over every reconnect.
package FleetlogTest::Load;

use strict;
use warnings;
use IO::Select;
use Time::HiRes qw(time);
use FleetlogTest::Mqtt;

# Options: devices => N (d1 .. dN of FleetlogTest::fleet), window => unacknowledged PUBLISH a device, run => a word
# that makes this load's payloads differ from those of others, subscriber => device id that listens to its own
# subtree, pad => bytes added to each payload.
sub new
{
    my ($class, $server, %opt) = @_;
    return bless {
        server => $server, devices => $opt{devices} // 3, window => $opt{window} // 10, run => $opt{run} // 'load', n => 0,
        subscribe => $opt{subscribe} // 1, pad => $opt{pad} // 0, acked => [], refused => [], sent => 0, delivered => [] }, $class;
}

sub connect_all
{
    my ($self) = @_;

    $self->{clients} = [];
    for my $i (1 .. $self->{devices})
    {
        my $client = $self->{server}->device("d$i", client_id => "pub-d$i");
        push @{ $self->{clients} }, { mqtt => $client, id => "d$i", open => {} };
    }
    if ($self->{subscribe})
    {
        $self->{listener} = $self->{server}->device('d1', client_id => 'sub-d1');
        $self->{listener}->subscribe([ [ 'acme/d1/#', 1 ] ]);
    }
    return;
}

sub step
{
    my ($self, $c) = @_;

    while (keys %{ $c->{open} } < $self->{window} && !$c->{mqtt}{closed})
    {
        my $payload = "$self->{run}-" . ++$self->{n};
        my $pid = $c->{mqtt}->publish("acme/$c->{id}/load", $payload . ('.' x $self->{pad}), qos => 1);
        $c->{open}{$pid} = $payload . ('.' x $self->{pad});
        $self->{sent}++;
    }
    return;
}

sub read_acks
{
    my ($self, $c) = @_;

    $c->{mqtt}->fill;
    while (my ($first, $body) = $c->{mqtt}->cut)
    {
        my $p = $c->{mqtt}->decode($first, $body);
        next unless $p->{name} eq 'PUBACK';
        my $payload = delete $c->{open}{ $p->{pid} };
        die "PUBACK for $p->{pid}, which is not open" unless defined $payload;
        push @{ $self->{ $p->{reason} < 0x80 ? 'acked' : 'refused' } }, $payload;
    }
    return;
}

sub read_deliveries
{
    my ($self) = @_;
    my $l = $self->{listener};

    $l->fill;
    while (my ($first, $body) = $l->cut)
    {
        my $p = $l->decode($first, $body);
        next unless $p->{name} eq 'PUBLISH';
        push @{ $self->{delivered} }, $p->{payload};
        $l->puback($p->{pid}) if $p->{qos};
    }
    return;
}

# Works for so many seconds, or until the condition is true, or until every connection is closed.
sub pump
{
    my ($self, $seconds, $until) = @_;
    my $end = time + $seconds;

    while (time < $end && !($until && $until->()))
    {
        my $select = IO::Select->new;
        my %by_fd;
        for my $c (grep { !$_->{mqtt}{closed} } @{ $self->{clients} })
        {
            $self->step($c);
            next if $c->{mqtt}{closed};
            $select->add($c->{mqtt}{socket});
            $by_fd{ fileno $c->{mqtt}{socket} } = $c;
        }
        last unless $select->count;
        $select->add($self->{listener}{socket}) if $self->{listener} && !$self->{listener}{closed};
        for my $fh ($select->can_read(0.1))
        {
            my $c = $by_fd{ fileno $fh };
            $c ? $self->read_acks($c) : $self->read_deliveries;
        }
    }
    return;
}

# Takes what still lies in the sockets and forgets the connections: after this nothing more can be acknowledged.
sub cut_off
{
    my ($self) = @_;

    for my $c (@{ $self->{clients} })
    {
        my $end = time + 5;
        until ($c->{mqtt}{closed} || time > $end)
        {
            last unless IO::Select->new($c->{mqtt}{socket})->can_read(0.2);
            $self->read_acks($c);
        }
        $c->{mqtt}->close;
    }
    if ($self->{listener})
    {
        $self->read_deliveries while !$self->{listener}{closed} && IO::Select->new($self->{listener}{socket})->can_read(0.2);
        $self->{listener}->close;
    }
    $self->{clients} = [];
    delete $self->{listener};
    return;
}

# Lets every open PUBLISH be answered without sending new ones.
sub drain
{
    my ($self, $seconds) = @_;
    my $window = $self->{window};
    my $end = time + ($seconds // $FleetlogTest::TIMEOUT);

    $self->{window} = 0;
    $self->pump(0.2) while time < $end && grep { keys %{ $_->{open} } && !$_->{mqtt}{closed} } @{ $self->{clients} };
    $self->{window} = $window;
    return scalar grep { keys %{ $_->{open} } } @{ $self->{clients} };
}

sub acked { return @{ $_[0]{acked} } }
sub delivered { return @{ $_[0]{delivered} } }
sub refused { return @{ $_[0]{refused} } }

1;
