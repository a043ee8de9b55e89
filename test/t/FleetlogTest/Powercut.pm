# FleetlogTest::Powercut: a server on a disk that forgets what was not flushed when its power is cut, and that can be small.
#
# The layer itself is in test/chaos.  A test makes one with FleetlogTest::Powercut->new($server) while the server is down, starts the
# server through start(), cuts the power with cut(), and starts again.  What was on disk when the layer came counts as
# flushed.  The server's fsync must be on; that it may be off is how the layer is proved.
package FleetlogTest::Powercut;

use strict;
use warnings;
use Carp qw(confess);
use PostgreSQL::Test::Utils;

# Builds the layer once, in the folder that was built for this run; '' with a reason when there is no compiler.
sub build
{
    my $source = ($ENV{FLEETLOG_SOURCE} // '.') . '/test/chaos';
    # Two tests at a time may come here.
    my $out = `flock '$source' make -s -C '$source' 2>&1`;

    confess("the power-cut layer does not build:\n$out") if $?;
    return "$source/build";
}

# Over a folder: side folder beside it.
sub over
{
    my ($class, $root) = @_;
    my $self = bless { build => build(), root => $root, side => "$root.side" }, $class;

    $self->tool('init', $self->{side});
    return $self;
}

# Over the data directory of a FleetlogTest server that is not running.
sub new
{
    my ($class, $server) = @_;
    my $self = $class->over($server->node->data_dir);

    $self->{server} = $server;
    return $self;
}

sub tool
{
    my ($self, @args) = @_;
    my $quoted = join ' ', map { "'$_'" } @args;
    my $out = `'$self->{build}/powercut' $quoted 2>&1`;

    confess("powercut @args: $out") if $?;
    return $out;
}

# Runs a piece of the test with the layer loaded into what it starts.
sub within
{
    my ($self, $code) = @_;
    local $ENV{LD_PRELOAD} = "$self->{build}/fl_powercut.so";
    local $ENV{FL_POWERCUT_ROOT} = $self->{root};
    local $ENV{FL_POWERCUT_SIDE} = $self->{side};
    return $code->();
}

sub start
{
    my ($self, %opt) = @_;
    return $self->within(sub { $self->{server}->start_after_crash(%opt) });
}

# skip_fsync, fsync_delay_us, free_data, free_wal (bytes; -1: as many as there are).
sub set
{
    my ($self, %what) = @_;
    $self->tool('set', $self->{side}, map { "$_=$what{$_}" } sort keys %what);
    return;
}

sub counters
{
    my ($self) = @_;
    return { split /[= \n]/, $self->tool('show', $self->{side}) };
}

# Cuts the power: every process of the cluster dies at once, and what was not flushed is lost: all of it, or a random
# part that the seed decides.  Returns what was reverted, as counts.
sub cut
{
    my ($self, %opt) = @_;
    my $out = $self->tool('cut', $self->{side}, $self->{root}, $opt{mode} // 'all', $opt{seed} // 1);

    if ($self->{server})
    {
        my $node = $self->{server}->node;
        my $pid = $node->{_pid};
        $self->{server}->wait_until_gone($pid) if defined $pid;
        $node->{_pid} = undef;
    }
    return { split /[= \n]/, $out };
}

# A program that does to files what its test says, one call at a time.
sub victim
{
    my ($self) = @_;
    my %h = (in => '', out => '');

    $self->within(sub {
        $h{run} = IPC::Run::start([ "$self->{build}/victim", $self->{root} ], '<', \$h{in}, '>', \$h{out}, '2>&1', IPC::Run::timeout($FleetlogTest::TIMEOUT)); });
    return sub {
        for (@_)
        {
            my $command = $_;
            my $may_fail = $command =~ s/^!//;
            $h{out} = '';
            $h{in} .= "$command\n";
            $h{run}->pump until $h{out} =~ /\n/;
            confess("$command: $h{out}") unless $may_fail || $h{out} eq "ok\n";
        }
        return $h{out};
    };
}

1;
