#!/usr/bin/perl
# check_kafka_cases.pl: holds docs/cases-kafka.md to the list of public cases and to the tests that it names.
#
# usage: check_kafka_cases.pl [--self-test] [SOURCE-FOLDER]
#
# Says, and ends with status 1, when
#   a case has two rows; a row is of no case;
#   a row names no test, a file is named that is not there, a name that none of its checks bears, or no name that has the
#   case in it.
# That a case has no row is no fault of the page yet.
#
# What a name is, is told in CheckedTable.pm.
# --self-test damages the table in every one of these ways and wants each of them to be found.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CheckedTable;

my %last = (A => 10, B => 10, C => 14, D => 9, E => 7, F => 9, G => 8, H => 5, I => 20);
my %known = map { my $kind = $_; map { ("$kind$_" => 1) } 1 .. $last{$kind} } keys %last;

sub faults_of
{
    my ($source, $text) = @_;
    my (@faults, %rows);

    for my $line (split /\n/, $text)
    {
        next unless $line =~ /^\| ([A-Z]\d+) \|/;
        my $case = $1;
        my @cells = split / \| /, $line =~ s/^\| | \|$//gr;

        push @faults, "$case: there is no such case" unless $known{$case};
        push @faults, "$case: has a row already" if $rows{$case}++;
        push @faults, "$case: three columns are wanted" and next if @cells != 3;
        my ($wrong, $names) = CheckedTable::judge($source, $cells[2], qr/(?!)/);
        push @faults, map { "$case: $_" } @$wrong;
        push @faults, "$case: none of the checks is called by it" if @$names && !grep { /\b$case\b/ } @$names;
    }
    return @faults;
}

# Ways to damage the table, each of which must be noticed.
my %damage = (
    'a row twice' => sub { s/^(\| I9 .*\n)/$1$1/m },
    'a case that is none' => sub { s/^\| I9 /| I99 /m },
    'a file that is not there' => sub { s/^(\| I9 .*)`\w+`/$1`999_nothing`/m },
    'a name that no check bears' => sub { s/^(\| I9 .*: ")/$1never heard of /m },
    'a test of another case' => sub { s/^(\| I9 \| [^|]* \|).*/$1 `740_kafka_sasl`: "H4: nothing" |/m },
    'a row without an answer' => sub { s/^(\| I9 \| [^|]* \|).*/$1 surely |/m });

CheckedTable::main('cases-kafka.md', \&faults_of, \%damage, @ARGV);
