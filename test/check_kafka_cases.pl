#!/usr/bin/perl
# check_kafka_cases.pl: holds docs/cases-kafka.md to the list of public cases and to the tests that it names.
#
# usage: check_kafka_cases.pl [--self-test] [SOURCE-FOLDER]
#
# Says, and ends with status 1, when
#   a case has no row, or two; a row is of no case;
#   a row names no test and does not say what is not there yet that the case is about;
#   a file is named that is not there, a name that none of its checks bears, or no name that has the case in it.
#
# What a name is, is told in CheckedTable.pm.
# --self-test damages the table in every one of these ways and wants each of them to be found.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CheckedTable;

my @cases = qw(A1 A2 A3 A5 A6 A7 A9 A10 B1 B2 B3 B4 B8 B9 B10 C1 C3 C5 C7 C8 C9 C10 C12 C13 C14 D1 D3 D4 D6 D9 E1 E3 E5 E7 F1 F4 F5 F6 F8 F9
  G1 G4 G7 G8 H1 H2 H4 H5 I1 I3 I5 I7 I9 I11 I12 I14 I15 I16 I18 I19 I20);
my %known = map { $_ => 1 } @cases;
# Where this may stand instead of a test.
my $no_test = qr/^not yet: (?:idempotent producers|transactions)$/;

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
        my ($wrong, $names) = CheckedTable::judge($source, $cells[2], $no_test);
        push @faults, map { "$case: $_" } @$wrong;
        push @faults, "$case: none of the checks is called by it" if @$names && !grep { /\b$case\b/ } @$names;
    }
    push @faults, map { "$_: has no row" } grep { !$rows{$_} } @cases;
    return @faults;
}

# Ways to damage the table, each of which must be noticed.
my %damage = (
    'no row for a case' => sub { s/^\| I9 .*\n//m },
    'a row that waits for nothing' => sub { s/^(\| I9 \| [^|]* \|).*/$1 not yet: time |/m },
    'a row twice' => sub { s/^(\| I9 .*\n)/$1$1/m },
    'a case that is none' => sub { s/^\| I9 /| I99 /m },
    'a file that is not there' => sub { s/^(\| I9 .*)`\w+`/$1`999_nothing`/m },
    'a name that no check bears' => sub { s/^(\| I9 .*: ")/$1never heard of /m },
    'a test of another case' => sub { s/^(\| I9 \| [^|]* \|).*/$1 `740_kafka_sasl`: "H4: nothing" |/m },
    'a row without an answer' => sub { s/^(\| I9 \| [^|]* \|).*/$1 surely |/m });

CheckedTable::main('cases-kafka.md', \&faults_of, \%damage, @ARGV);
