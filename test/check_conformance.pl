#!/usr/bin/perl
# check_conformance.pl: holds docs/conformance-mqtt.md to the standard's numbers and to the tests that it names.
#
# usage: check_conformance.pl [--self-test] [SOURCE-FOLDER]
#
# Says, and ends with status 1, when
#   a statement of MQTT 5.0 has no row, or two; a row's number is none of its standard; one of 3.1.1 has two rows;
#   a row names no test and does not say whose duty it is or that there is no test;
#   a file is named that is not there, or a name that none of its checks bears.
#
# A name is what stands in the source between the quotes of a string, or a part of it with its variables unexpanded; in
# a unit test it may be a function that FL_RUN runs.  Comments do not count, so that a name cannot outlive its check.
# --self-test damages the table in every one of these ways and wants each of them to be found.
use strict;
use warnings;

# How many statements each clause has; they are numbered from 1, but for clause 2.2.1 of 5.0, whose first is 2.
my %count5 = (
    '1.5.4' => 3, '1.5.5' => 1, '1.5.7' => 1, '2.1.3' => 1, '2.2.1' => 6, '2.2.2' => 1, '3.1.0' => 2, '3.1.2' => 30, '3.1.3' => 12,
    '3.1.4' => 6, '3.2.0' => 2, '3.2.2' => 22, '3.3.1' => 13, '3.3.2' => 20, '3.3.4' => 10, '3.4.2' => 3, '3.5.2' => 3, '3.6.1' => 1,
    '3.6.2' => 3, '3.7.2' => 3, '3.8.1' => 1, '3.8.3' => 5, '3.8.4' => 8, '3.9.2' => 2, '3.9.3' => 2, '3.10.1' => 1, '3.10.3' => 2,
    '3.10.4' => 6, '3.11.2' => 2, '3.11.3' => 2, '3.12.4' => 1, '3.14.0' => 1, '3.14.1' => 1, '3.14.2' => 4, '3.14.4' => 3,
    '3.15.1' => 1, '3.15.2' => 3, '4.1.0' => 2, '4.2.0' => 1, '4.3.1' => 1, '4.3.2' => 5, '4.3.3' => 13, '4.4.0' => 2, '4.5.0' => 2,
    '4.6.0' => 6, '4.7.0' => 1, '4.7.1' => 2, '4.7.2' => 1, '4.7.3' => 4, '4.8.2' => 6, '4.9.0' => 3, '4.12.0' => 7, '4.12.1' => 2,
    '4.13.1' => 1, '4.13.2' => 1, '6.0.0' => 4);
my %count3 = (
    '1.5.3' => 3, '2.2.2' => 2, '2.3.1' => 7, '3.1.0' => 2, '3.1.2' => 24, '3.1.3' => 11, '3.1.4' => 5, '3.2.0' => 1, '3.2.2' => 6,
    '3.3.1' => 12, '3.3.2' => 3, '3.3.4' => 1, '3.3.5' => 2, '3.6.1' => 1, '3.8.1' => 1, '3.8.3' => 4, '3.8.4' => 6, '3.9.3' => 2,
    '3.10.1' => 1, '3.10.3' => 2, '3.10.4' => 6, '3.12.4' => 1, '3.14.1' => 1, '3.14.4' => 3, '4.1.0' => 2, '4.2.0' => 1, '4.3.1' => 1,
    '4.3.2' => 3, '4.3.3' => 2, '4.4.0' => 1, '4.5.0' => 2, '4.6.0' => 6, '4.7.1' => 3, '4.7.2' => 1, '4.7.3' => 4, '4.8.0' => 2,
    '6.0.0' => 4);
# Where a name may stand alone instead of a test.
my $no_test = qr/^(?:client's duty|not yet: issue \d+, \S|no test: issue \d+, \S)/;

sub slurp
{
    my ($path) = @_;
    open my $in, '<', $path or return;
    local $/ = undef;
    return scalar <$in>;
}

my %strings;

# The strings of a file, each with a newline behind it, and the functions that it runs as tests.
sub names_of
{
    my ($source, $file) = @_;
    my ($path) = grep { -r } map { "$source/test/$_" } "t/$file.pl", "unit/$file.c", "sql/$file.sql";

    return unless defined $path;
    return $strings{$path} //= do {
        my $text = slurp($path);
        my $all = '';
        if ($path =~ /\.c$/) { $text =~ s{/\*.*?\*/}{}gs; }
        for my $line (split /\n/, $text)
        {
            next if $line =~ /^\s*(?:#|--|\/\/)/;
            $all .= "$2\n" while $line =~ /(["'])((?:\\.|(?!\1).)*)\1/g;
            $all .= "$1\n" while $line =~ /FL_RUN\((\w+)\)/g;
        }
        $all;
    };
}

# What is wrong with the last column of a row.
sub judge
{
    my ($source, $cell) = @_;
    my (@faults, $says);

    for my $part (split /; /, $cell)
    {
        if ($part =~ /^`(\w+)`: (".*)$/)
        {
            my ($file, $rest) = ($1, $2);
            my $known = names_of($source, $file);
            push @faults, "no test file $file" and next unless defined $known;
            while ($rest =~ s/^"([^"]+)"(?:, )?//)
            {
                my $name = $1;
                push @faults, "no check \"$name\" in $file" if length $name < 4 || index($known, $name) < 0;
            }
            push @faults, "cannot read: $rest" if $rest ne '' && $rest !~ /^ ?\([^()]+\)$/;
            $says = 1;
        }
        elsif ($part =~ $no_test) { $says = 1; }
        else { push @faults, "neither a test nor a reason: $part"; }
    }
    push @faults, 'says nothing' unless $says;
    return @faults;
}

sub faults_of
{
    my ($source, $text) = @_;
    my (@faults, %rows);
    my $version = '5.0';

    for my $line (split /\n/, $text)
    {
        $version = $1 if $line =~ /^## .*MQTT (5\.0|3\.1\.1)/;
        next unless $line =~ /^\| (\d+(?:\.\d+)+)-(\d+) \|/;
        my ($clause, $n) = ($1, $2);
        my $count = $version eq '5.0' ? \%count5 : \%count3;
        my $first = $version eq '5.0' && $clause eq '2.2.1' ? 2 : 1;
        my @cells = split / \| /, $line =~ s/^\| | \|$//gr;

        push @faults, "MQTT $version has no statement $clause-$n" if $n < $first || $n > ($count->{$clause} // 0);
        push @faults, "MQTT $version, $clause-$n: has a row already" if $rows{$version}{"$clause-$n"}++;
        push @faults, "MQTT $version, $clause-$n: three columns are wanted" and next if @cells != 3;
        push @faults, map { "MQTT $version, $clause-$n: $_" } judge($source, $cells[2]);
    }
    for my $clause (sort keys %count5)
    {
        for my $n (($clause eq '2.2.1' ? 2 : 1) .. $count5{$clause})
        {
            push @faults, "MQTT 5.0, $clause-$n: has no row" unless $rows{'5.0'}{"$clause-$n"};
        }
    }
    return @faults;
}

# Damages the table; whatever is not noticed is a fault of this program.
sub self_test
{
    my ($source, $text) = @_;
    my %damage = (
        'a row that is gone' => sub { s/^\| 3\.3\.1-4 .*\n//m },
        'a row twice' => sub { s/^(\| 3\.3\.1-4 .*\n)/$1$1/m },
        'a number that is none' => sub { s/^\| 3\.3\.1-4 /| 3.3.1-14 /m },
        'a file that is not there' => sub { s/^(\| 3\.3\.1-4 .*)`\w+`/$1`999_nothing`/m },
        'a name that no check bears' => sub { s/^(\| 3\.3\.1-4 .*: ")/$1never heard of /m },
        'a second name that no check bears' => sub { s/^(\| 3\.3\.1-4 .*") \|$/$1, "never heard of" |/m },
        'a row without an answer' => sub { s/^(\| 3\.3\.1-4 \| [^|]* \|).*/$1 surely |/m },
        'a reason without an issue' => sub { s/^(\| 3\.3\.1-4 \| [^|]* \|).*/$1 no test: some day |/m });
    my @missed;

    for my $name (sort keys %damage)
    {
        local $_ = $text;
        $damage{$name}->();
        push @missed, "self-test: the table could not be given $name" and next if $_ eq $text;
        push @missed, "self-test: not noticed: $name" unless faults_of($source, $_);
    }
    return @missed;
}

my $self = @ARGV && $ARGV[0] eq '--self-test' ? shift @ARGV : 0;
my $source = $ARGV[0] // '.';
my $text = slurp("$source/docs/conformance-mqtt.md") // die "no docs/conformance-mqtt.md in $source\n";
my @faults = faults_of($source, $text);
push @faults, self_test($source, $text) if $self;
print "docs/conformance-mqtt.md: $_\n" for @faults;
exit(@faults ? 1 : 0);
