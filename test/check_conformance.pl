#!/usr/bin/perl
# check_conformance.pl: holds docs/conformance-mqtt.md to the standard's numbers and to the tests that it names.
#
# usage: check_conformance.pl [--self-test] [SOURCE-FOLDER]
#
# Says, and ends with status 1, when
#   a statement of MQTT 5.0 has no row, or two; a row's number is none of its standard; one of 3.1.1 has two rows;
#   a row names no test and does not say whose duty it is or that there is no test;
#   a file is named that is not there, or a name that none of its checks bears;
#   a case of test/sequences shows a statement whose row does not name it.
#
# What a name is, is told in CheckedTable.pm.
# --self-test damages the table in every one of these ways and wants each of them to be found.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CheckedTable;

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

sub faults_of
{
    my ($source, $text) = @_;
    my (@faults, %rows, %said);
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
        $said{$version}{"$clause-$n"} = $cells[2];
        my ($wrong) = CheckedTable::judge($source, $cells[2], $no_test);
        push @faults, map { "MQTT $version, $clause-$n: $_" } @$wrong;
    }
    for my $clause (sort keys %count5)
    {
        for my $n (($clause eq '2.2.1' ? 2 : 1) .. $count5{$clause})
        {
            push @faults, "MQTT 5.0, $clause-$n: has no row" unless $rows{'5.0'}{"$clause-$n"};
        }
    }
    push @faults, unnamed_cases($source, \%said);
    return @faults;
}

# Cases of byte sequences that the row of a statement which they show does not name.
sub unnamed_cases
{
    my ($source, $said) = @_;
    my @faults;

    for my $path (sort glob "$source/test/sequences/*.seq")
    {
        my ($file) = $path =~ /(\w+)\.seq$/;
        my $case = '';
        for my $line (split /\n/, CheckedTable::slurp($path))
        {
            $case = $1 if $line =~ /^case (.+)$/;
            next unless $line =~ /^shows(3?) (.+)$/;
            my $version = $1 ? '3.1.1' : '5.0';
            for my $id (split ' ', $2)
            {
                my $cell = $said->{$version}{$id} // '';
                my ($names) = $cell =~ /`$file`: ((?:"[^"]+"(?:, )?)+)/;
                push @faults, "MQTT $version, $id: does not name \"$case\" of $file" if index($names // '', "\"$case\"") < 0;
            }
        }
    }
    return @faults;
}

# Ways to damage the table, each of which must be noticed.
my %damage = (
    'a row that is gone' => sub { s/^\| 3\.3\.1-4 .*\n//m },
    'a row twice' => sub { s/^(\| 3\.3\.1-4 .*\n)/$1$1/m },
    'a number that is none' => sub { s/^\| 3\.3\.1-4 /| 3.3.1-14 /m },
    'a file that is not there' => sub { s/^(\| 3\.3\.1-4 .*)`\w+`/$1`999_nothing`/m },
    'a name that no check bears' => sub { s/^(\| 3\.3\.1-4 .*: ")/$1never heard of /m },
    'a second name that no check bears' => sub { s/^(\| 3\.3\.1-4 .*") \|$/$1, "never heard of" |/m },
    'a sequence that is not named' => sub { s/^(\| 3\.3\.1-4 .*?); `bytes_publish`: "[^"]+"/$1/m },
    'a row without an answer' => sub { s/^(\| 3\.3\.1-4 \| [^|]* \|).*/$1 surely |/m },
    'a reason without an issue' => sub { s/^(\| 3\.3\.1-4 \| [^|]* \|).*/$1 no test: some day |/m });

CheckedTable::main('conformance-mqtt.md', \&faults_of, \%damage, @ARGV);
