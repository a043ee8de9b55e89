#!/usr/bin/perl
# check_cases.pl: holds docs/cases-mqtt.md to the list of public cases and to the tests that it names.
#
# usage: check_cases.pl [--self-test] [SOURCE-FOLDER]
#
# Says, and ends with status 1, when
#   a case has no row, or two; a row is of no case;
#   a row names no test and does not say that the case is about something that is not there;
#   a file is named that is not there, a name that none of its checks bears, or no name that has the case in it.
#
# What a name is, is told in CheckedTable.pm.
# --self-test damages the table in every one of these ways and wants each of them to be found.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CheckedTable;

my @cases = ((map { sprintf 'O%02d', $_ } 1 .. 71), map { "O-$_" } 'A' .. 'L');
# Where this may stand instead of a test.
my $no_test = qr/^(?:no bridge: \S|not yet: issue \d+, \S)/;

sub faults_of
{
    my ($source, $text) = @_;
    my (@faults, %rows);
    my %known = map { $_ => 1 } @cases;

    for my $line (split /\n/, $text)
    {
        next unless $line =~ /^\| (O[\w-]+) \|/;
        my $case = $1;
        my @cells = split / \| /, $line =~ s/^\| | \|$//gr;

        push @faults, "$case: there is no such case" unless $known{$case};
        push @faults, "$case: has a row already" if $rows{$case}++;
        push @faults, "$case: three columns are wanted" and next if @cells != 3;
        my ($wrong, $names) = CheckedTable::judge($source, $cells[2], $no_test);
        push @faults, map { "$case: $_" } @$wrong;
        push @faults, "$case: none of the checks is called by it" if @$names && !grep { /\Q$case\E\b/ } @$names;
    }
    return (@faults, map { "$_: has no row" } grep { !$rows{$_} } @cases);
}

# Ways to damage the table, each of which must be noticed.
my %damage = (
    'a row that is gone' => sub { s/^\| O09 .*\n//m },
    'a row twice' => sub { s/^(\| O09 .*\n)/$1$1/m },
    'a case that is none' => sub { s/^\| O09 /| O99 /m },
    'a file that is not there' => sub { s/^(\| O09 .*)`\w+`/$1`999_nothing`/m },
    'a name that no check bears' => sub { s/^(\| O09 .*: ")/$1never heard of /m },
    'a test of another case' => sub { s/^(\| O09 \| [^|]* \|).*/$1 `100_mqtt_malformed`: "O07: and again" |/m },
    'a row without an answer' => sub { s/^(\| O09 \| [^|]* \|).*/$1 surely |/m },
    'a reason without an issue' => sub { s/^(\| O09 \| [^|]* \|).*/$1 not yet: some day |/m });

CheckedTable::main('cases-mqtt.md', \&faults_of, \%damage, @ARGV);
