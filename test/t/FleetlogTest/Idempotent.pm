# FleetlogTest::Idempotent: idempotent producers on librdkafka in the background, and whether what they were told is what is there.
package FleetlogTest::Idempotent;

use strict;
use warnings;
use FindBin;
use IPC::Run;
use Test::More;
use FleetlogTest;

# Python of the system, whose packages are Debian's.
our $python = '/usr/bin/python3';

sub is_here { return -x $python && system("$python -c 'import confluent_kafka' 2>/dev/null") == 0; }

# servers, topic, count; rate of each.
sub start
{
    my ($class, %opt) = @_;
    my $dir = PostgreSQL::Test::Utils::tempdir();
    my $self = bless { %opt, stop => "$dir/stop", runs => {} }, $class;

    for my $i (1 .. $opt{count})
    {
        my %run = (report => "$dir/p$i", err => '');

        $run{handle} = IPC::Run::start([ $python, "$FindBin::Bin/../interop/idempotent_producer.py", $opt{servers}, $opt{topic}, "p$i", $run{report}, $self->{stop}, $opt{rate} // 1500 ],
            '<', \undef, '>', '/dev/null', '2>', \$run{err}, IPC::Run::timeout(900));
        $self->{runs}{"p$i"} = \%run;
    }
    return $self;
}

sub finish
{
    my ($self) = @_;

    open my $f, '>', $self->{stop} or die "$self->{stop}: $!";
    close $f;
    for my $name (sort keys %{ $self->{runs} })
    {
        my $run = $self->{runs}{$name};

        $run->{handle}->finish;
        diag("$name: $run->{err}") if $run->{handle}->result(0) != 0;
    }
    return;
}

# Each record that was sent was acknowledged, is there once, where it was said to be, and in order.
sub check
{
    my ($self, $s) = @_;
    my %there;
    my ($sent, $faults, $nowhere) = (0, 0, 0);
    my $note = sub { diag($_[0]) if $faults++ < 10; };
    my $last = '';

    for my $row (split /\n/, $s->sql("SELECT concat_ws('|', convert_from(payload, 'UTF8'), shard, log_offset) FROM $self->{topic} ORDER BY shard, log_offset"))
    {
        my ($what, $shard, $offset) = split /\|/, $row;
        my ($name, $number) = split /:/, $what;

        push @{ $there{$name}{$number} }, "$shard $offset";
        $note->("$what stands behind $last->{$name}{$shard}") if ref $last && ($last->{$name}{$shard} // -1) >= $number;
        $last = {} unless ref $last;
        $last->{$name}{$shard} = $number;
    }
    for my $name (sort keys %{ $self->{runs} })
    {
        my ($n, %told) = (-1);

        for my $line (split /\n/, PostgreSQL::Test::Utils::slurp_file($self->{runs}{$name}{report}))
        {
            if ($line =~ /^sent (-?\d+)$/) { $n = $1; }
            elsif ($line =~ /^(\d+) (\d+ -?\d+)$/) { $told{$1} = $2; }
            else { $note->("$name: $line"); }
        }
        $note->("$name did not end well: $n") if $n < 0;
        for my $number (0 .. $n - 1)
        {
            my @where = @{ $there{$name}{$number} // [] };

            $note->("$name:$number was not acknowledged") unless defined $told{$number};
            $note->("$name:$number is there " . @where . " times: @where") if @where != 1;
            # A duplicate of before the last five has no offset.
            $nowhere++ if defined $told{$number} && $told{$number} =~ / -1$/;
            $note->("$name:$number was said to be at $told{$number}, and is at $where[0]")
              if @where == 1 && defined $told{$number} && $told{$number} !~ / -1$/ && $told{$number} ne $where[0];
        }
        $note->("$name: " . keys(%{ $there{$name} }) . " records of $n") if keys(%{ $there{$name} // {} }) != $n;
        $sent += $n;
    }
    note("$nowhere were acknowledged without an offset");
    return ($faults, $sent);
}

1;
