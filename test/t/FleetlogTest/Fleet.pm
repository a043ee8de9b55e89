# FleetlogTest::Fleet: a fleet of simulated devices (test/fleet) that a test starts, commands and asks.
#
# Waiting is polling the lines of JSON that the fleet prints; a wait that ends without its condition dies and shows the last of them.
package FleetlogTest::Fleet;

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run;
use JSON::PP;
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Utils;
use FleetlogTest;

# Builds the program once, in the folder that was built for this run.
sub build
{
    my $source = ($ENV{FLEETLOG_SOURCE} // '.') . '/test/fleet';
    # Two tests at a time may come here.
    my $out = `flock '$source' make -s -C '$source' all 2>&1`;

    confess("fl_fleet does not build:\n$out") if $?;
    return "$source/build/fl_fleet";
}

# Registers devices d<from> .. d<to> of tenant acme, each with a password that the server made up, and writes the
# file of credentials.  Returns its name.
sub register
{
    my ($class, $server, $name, $from, $to) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . "/$name";

    PostgreSQL::Test::Utils::append_to_file($file,
        $server->sql("SELECT 'acme/d' || n || ' ' || fleetlog.create_device('d' || n, 'acme') FROM generate_series($from, $to) n") . "\n");
    return $file;
}

# Fleets that a test which fails would leave behind.
my @started;

END
{
    # Killing must not change the test's own exit status.
    my $status = $?;
    $_->{run}->kill_kill(grace => 1) for grep { !exists $_->{status} } @started;
    $? = $status;
}

# Options are those of fl_fleet; port and interval of its lines are given.
sub start
{
    my ($class, $server, @options) = @_;
    my $self = bless { in => '', out => '', err => '', lines => [], seen => 0 }, $class;

    $self->{run} = IPC::Run::start([ build(), '-p', $server->port, '--every', '0.2', @options ], '<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
    push @started, $self;
    return $self;
}

sub read_lines
{
    my ($self) = @_;

    $self->{run}->pump_nb;
    while ($self->{out} =~ s/^(.*)\n//)
    {
        push @{ $self->{lines} }, decode_json($1);
    }
    return;
}

# Waits for a line for which the condition is true, behind the last one that was waited for, and returns it.
sub wait_for_line
{
    my ($self, $what, $condition) = @_;
    my $end = time + $FleetlogTest::TIMEOUT;

    while (1)
    {
        $self->read_lines;
        while ($self->{seen} < @{ $self->{lines} })
        {
            my $line = $self->{lines}[ $self->{seen}++ ];
            return $line if $condition->($line);
        }
        my $last = @{ $self->{lines} } ? encode_json($self->{lines}[-1]) : 'nothing';
        confess("gave up waiting for $what; last line: $last\n$self->{err}") if time > $end || !$self->{run}->pumpable;
        usleep(20_000);
    }
}

# Waits until a field of the regular lines has a value that satisfies the condition.
sub wait_for
{
    my ($self, $field, $condition, $what) = @_;
    return $self->wait_for_line($what // $field, sub { defined $_[0]{attempts_s} && $condition->($_[0]{$field}) });
}

# Every device is connected.
sub wait_connected
{
    my ($self, $n, $what) = @_;
    return $self->wait_for('connected', sub { $_[0] == $n }, $what // "all $n devices to be connected");
}

# Gives a command and returns the line that says that it was carried out; states in it are those of that moment, not older.
sub command
{
    my ($self, $command) = @_;

    $self->{in} .= "$command\n";
    return $self->wait_for_line("the answer to \"$command\"", sub { $_[0]{done} || $_[0]{error} });
}

# Ends the fleet in order and returns its summary; exit status in ->{status}.
sub quit
{
    my ($self) = @_;

    $self->command('quit');
    my $summary = $self->wait_for_line('the summary', sub { $_[0]{summary} });
    $self->{run}->finish;
    $self->{status} = $self->{run}->result(0);
    return $summary;
}

# The law of full jitter over the whole output: (exit code, what was judged).
sub check_backoff
{
    my ($self, $summary, @options) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . '/summary';
    my $judge = ($ENV{FLEETLOG_SOURCE} // '.') . '/test/fleet/check_backoff.pl';
    my ($out, $err);

    # The judge looks for the word at the beginning of the line.
    my %rest = %$summary;
    delete $rest{summary};
    open my $f, '>', $file or confess("$file: $!");
    print $f '{"summary":true,' . substr(encode_json(\%rest), 1), "\n";
    close $f;
    my $ok = IPC::Run::run([ $^X, $judge, @options, $file ], '>', \$out, '2>', \$err);
    return ($ok, "$out$err");
}

# What was acknowledged against what the stream holds: (exit code, the counts).
sub check_truth
{
    my ($server, $stream, $file) = @_;
    my $judge = ($ENV{FLEETLOG_SOURCE} // '.') . '/test/bench/check_truth.pl';
    my ($out, $err);
    my $ok = IPC::Run::run([ $^X, $judge, '--uri', $server->node->connstr('fleetlog'), '--stream', $stream, $file ], '>', \$out, '2>', \$err);

    return ($ok, "$out$err");
}

1;
