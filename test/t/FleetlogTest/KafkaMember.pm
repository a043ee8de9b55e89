# FleetlogTest::KafkaMember: consumers and producers as processes of their own, which may be killed at any moment, and the
# journals that they keep of what they have been told and done.
#
# A line of a journal is written before what follows from it: "done" before the position behind it is committed, "acked" when the
# answer is there.  What a line means:
#   own      incarnation generation member partitions   what SyncGroup gave it
#   start    partition offset                           what OffsetFetch told it, and "ask" when it was asked for
#   done     partition offset value                     a record it has processed
#   commit   partition offset                           an OffsetCommit that was answered without an error
#   acked    value                                      of a producer
# The time stands in front of each.  The incarnation is what a file said when the member connected: how often the server has
# lost its groups by then.
package FleetlogTest::KafkaMember;

use strict;
use warnings;
use Fcntl qw(O_APPEND O_CREAT O_WRONLY);
use IPC::Run ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC time usleep);
use FleetlogTest::KafkaBatch ();
use FleetlogTest::KafkaFetch;
use FleetlogTest::KafkaGroup;

our $SESSION = 2000;
our $REBALANCE = 4000;

# ---- in the test -----------------------------------------------------------------------

# Starts one: what => 'consume' or 'produce', port, topic, partitions, group, dir (of journals, and of the file "incarnation"), name.
sub start
{
    my ($class, %opt) = @_;
    my ($lib) = grep { -e "$_/FleetlogTest/KafkaMember.pm" } @INC;
    my $log = "$opt{dir}/$opt{name}.err";
    my $run = IPC::Run::start([ $^X, "-I$lib", '-MFleetlogTest::KafkaMember', '-e', 'FleetlogTest::KafkaMember::main(@ARGV)', %opt ], '<', \'', '>', '/dev/null', '2>', $log);

    return bless { run => $run, name => $opt{name}, err => $log }, $class;
}

sub signal { my ($self, $name) = @_; $self->{run}->signal($name); return; }

# Its end, by a signal; TERM: it leaves the group before.
sub end
{
    my ($self, $name) = @_;

    $self->signal($name);
    $self->signal('CONT');
    eval { $self->{run}->finish };
    return;
}

# ---- in the process ----------------------------------------------------------------------

my ($journal, $stop, $half_close) = (undef, 0, 0);

sub say_ { syswrite $journal, join(' ', sprintf('%.6f', clock_gettime(CLOCK_MONOTONIC)), @_) . "\n"; return; }

sub main
{
    my %opt = @_;

    sysopen $journal, "$opt{dir}/$opt{name}.journal", O_WRONLY | O_CREAT | O_APPEND or die "journal: $!";
    $SIG{TERM} = sub { $stop = 1 };
    $SIG{USR1} = sub { $half_close = 1 };
    $SIG{PIPE} = 'IGNORE';
    $FleetlogTest::KafkaGroup::TIMEOUT = 15;
    $FleetlogTest::Kafka::TIMEOUT = 15;
    my $self = bless { %opt, id => '', generation => -1, at => {} }, __PACKAGE__;
    until ($stop)
    {
        # Whatever breaks: a server that is gone for a moment, a connection that was closed.
        eval { $opt{what} eq 'produce' ? $self->produce : $self->consume; 1 } or print STDERR $@;
        usleep(50_000) unless $stop;
    }
    return;
}

sub incarnation { my ($self) = @_; open my $f, '<', "$self->{dir}/incarnation" or die "incarnation: $!"; return <$f> + 0; }

sub produce
{
    my ($self) = @_;
    my $c = FleetlogTest::Kafka->connect($self->{port}) or die "refused\n";

    until ($stop)
    {
        my $value = "$self->{name}-" . ($self->{next} // 0);
        my ($r) = FleetlogTest::KafkaBatch::produce($c, 9, -1, [ $self->{topic}, int rand $self->{partitions}, FleetlogTest::KafkaBatch::batch(records => [ FleetlogTest::KafkaBatch::record(undef, $value) ]) ]);

        die "closed\n" unless $r;
        die "error $r->{error}\n" if $r->{error};
        say_('acked', $value);
        $self->{next}++;
        usleep(8_000);
    }
    return;
}

# A life in the group, until it breaks or is told to leave.
sub consume
{
    my ($self) = @_;
    my $incarnation = $self->incarnation;
    my $m = $self->{member} = FleetlogTest::KafkaGroup->open($self->{port}, group => $self->{group});
    my $c = $self->{reader} = FleetlogTest::KafkaFetch->connect($self->{port}) or die "refused\n";

    @{$m}{qw(id generation)} = ($self->{id}, $self->{generation});
    until ($stop)
    {
        $self->take_part($incarnation) or next;
        @{$self}{qw(id generation)} = @{$m}{qw(id generation)};
        $self->begin or next;
        $self->work;
    }
    $m->leave;
    return;
}

# Joins and is assigned something; false: to be tried again.
sub take_part
{
    my ($self, $incarnation) = @_;
    my $m = $self->{member};
    my $error = $m->join_group(session => $SESSION, rebalance => $REBALANCE);

    $self->half_close if $half_close;
    die "no answer to JoinGroup\n" if !defined $error || $error eq 'closed';
    if ($error) { $m->{id} = '' if $error == 25; usleep(30_000); return 0; }
    my %share;
    if ($m->{leads})
    {
        my @ids = sort map { $_->{id} } @{ $m->{members} };
        push @{ $share{ $ids[ $_ % @ids ] } }, $_ for 0 .. $self->{partitions} - 1;
        %share = map { $_ => pack 'n*', @{ $share{$_} // [] } } @ids;
    }
    $error = $m->sync(\%share);
    die "no answer to SyncGroup\n" if !defined $error || $error eq 'closed';
    if ($error) { $m->{id} = '' if $error == 25; return 0; }
    @{ $self->{own} } = unpack 'n*', $m->{assignment};
    say_('own', $incarnation, $m->{generation}, $m->{id}, @{ $self->{own} });
    return 1;
}

# The socket is closed for writing while a request of ours waits; the server may answer it or not.
sub half_close
{
    my ($self) = @_;
    my $m = $self->{member};

    $half_close = 0;
    $m->send_join(session => $SESSION, rebalance => $REBALANCE);
    shutdown $m->{socket}, 1;
    $m->answer(0.5);
    die "half closed\n";
}

# Where it goes on.
sub begin
{
    my ($self) = @_;
    my $m = $self->{member};

    $self->{at} = {};
    return 1 unless @{ $self->{own} };
    say_('ask');
    my $got = $m->fetch([ $self->{topic}, @{ $self->{own} } ]);
    for my $p (@{ $self->{own} })
    {
        my ($offset) = ($got->{"$self->{topic}:$p"} // '') =~ /^(-?\d+) /;
        if (!defined $offset) { usleep(30_000); return 0; }
        say_('start', $p, $offset);
        $self->{at}{$p} = $offset < 0 ? 0 : $offset;
    }
    return 1;
}

# Reads, processes and commits until the group is to rebalance.
sub work
{
    my ($self) = @_;
    my $m = $self->{member};

    until ($stop)
    {
        $self->half_close if $half_close;
        my $error = $m->heartbeat;
        $m->{id} = '' if $error == 25;
        return if $error && $error != 27;
        $self->read_some if $error == 0;
        return unless $self->commit_all;
        return if $error == 27;
    }
    return;
}

sub read_some
{
    my ($self) = @_;
    my %at = %{ $self->{at} };

    if (!%at) { usleep(100_000); return; }
    my $answer = $self->{reader}->fetch([ [ $self->{topic}, map { [ $_, $at{$_}, 400 ] } sort keys %at ] ], max_wait => 100, min_bytes => 1);
    die "no answer to Fetch\n" unless $answer;
    for my $p (sort keys %at)
    {
        my $part = $answer->{parts}{"$self->{topic}:$p"};
        # A server that begins anew may not have everything yet that it will have.
        next if $part->{error};
        for my $r (map { @{ $_->{records} } } FleetlogTest::KafkaFetch::batches($part->{records}))
        {
            next if $r->{offset} < $self->{at}{$p};
            say_('done', $p, $r->{offset}, $r->{value});
            $self->{at}{$p} = $r->{offset} + 1;
            $self->{new}{$p} = 1;
        }
    }
    return;
}

sub commit_all
{
    my ($self) = @_;
    my @p = grep { exists $self->{at}{$_} } sort keys %{ $self->{new} // {} };

    $self->{new} = {};
    return 1 unless @p;
    my @error = $self->{member}->commit(map { [ $self->{topic}, $_, $self->{at}{$_} ] } @p);
    for my $i (0 .. $#p)
    {
        say_('commit', $p[$i], $self->{at}{ $p[$i] }) if $error[$i] == 0;
        $self->{member}{id} = '' if $error[$i] == 25;
        return 0 if $error[$i] && $error[$i] != 14;
        $self->{new}{ $p[$i] } = 1 if $error[$i];
    }
    return 1;
}

1;
