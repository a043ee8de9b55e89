# CheckedTable: pages of docs/ whose tables name tests, held to the tests (check_conformance.pl, check_cases.pl).
#
# A cell names checks as `file`: "name", "name" (a remark); several files are parted by "; ".  A name is what stands in the
# source between the quotes of a string, or a part of it with its variables unexpanded; in a unit test it may be a
# function that FL_RUN runs, in a file of byte sequences it is a case's.  Comments do not count, so that a name cannot outlive its check.
package CheckedTable;

use strict;
use warnings;

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
    my ($path) = grep { -r } map { "$source/test/$_" } "t/$file.pl", "unit/$file.c", "sql/$file.sql", "sequences/$file.seq";

    return unless defined $path;
    return $strings{$path} //= do {
        my $text = slurp($path);
        my $all = '';
        return $strings{$path} = join '', map { "$_\n" } $text =~ /^case (.+)$/gm if $path =~ /\.seq$/;
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

# What is wrong with a cell that names checks or has another reason; and the names in it.
sub judge
{
    my ($source, $cell, $reason) = @_;
    my (@faults, @names, $says);

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
                push @names, $name;
            }
            push @faults, "cannot read: $rest" if $rest ne '' && $rest !~ /^ ?\([^()]+\)$/;
            $says = 1;
        }
        elsif ($part =~ $reason) { $says = 1; }
        else { push @faults, "neither a test nor a reason: $part"; }
    }
    push @faults, 'says nothing' unless $says;
    return (\@faults, \@names);
}

# Damages a page in every way of %$damage; whatever its judge does not notice is a fault of the judge.
sub self_test
{
    my ($text, $damage, $faults_of) = @_;
    my @missed;

    for my $name (sort keys %$damage)
    {
        local $_ = $text;
        $damage->{$name}->();
        push @missed, "self-test: the table could not be given $name" and next if $_ eq $text;
        my @faults = $faults_of->($_);
        push @missed, "self-test: not noticed: $name" unless @faults;
    }
    return @missed;
}

# Checks docs/$page as the command line says, and ends the program.
sub main
{
    my ($page, $faults_of, $damage, @args) = @_;
    my $self = @args && $args[0] eq '--self-test' ? shift @args : 0;
    my $source = $args[0] // '.';
    my $text = slurp("$source/docs/$page") // die "no docs/$page in $source\n";
    my @faults = $faults_of->($source, $text);

    push @faults, self_test($text, $damage, sub { $faults_of->($source, $_[0]) }) if $self;
    print "docs/$page: $_\n" for @faults;
    exit(@faults ? 1 : 0);
}

1;
